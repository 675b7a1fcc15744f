// Second moments of single inputs and of all that the layers of a model read.

#include <cstdint>
#include <set>
#include <utility>

#include <adaact/models/registry.h>
#include <adaact/observe/observer.h>
#include <torch/torch.h>

#include "gpu_kernels/work.h"
#include "moments/column_squares_cuda.h"
#include "moments/offered_squares.h"
#include "moments/second_moments_cuda.h"
#include "train/run/run_parts.h"
#include "train/step/autocast.h"

namespace adaact::bench {
namespace {

using Inputs = std::vector<MomentInput>;

StillToRead rest_of(const MomentInput& of) {
  return of.squares.defined() ? still_to_read(of.input, of.geometry) : StillToRead::Everything;
}

void add_border(Traffic& traffic, const MomentInput& of) {
  const auto height = static_cast<double>(of.input.size(2));
  const auto width = static_cast<double>(of.input.size(3));
  const auto border = 2.0 * (height + width - 2.0) / (height * width);
  const auto bytes = border * static_cast<double>(of.input.nbytes());
  traffic.moved += bytes;
  traffic.held += bytes;
}

/// Every input is read once. Layers side by side may have the same one.
Traffic traffic_of(const Inputs& inputs) {
  Traffic traffic;
  std::set<const void*> known;
  for (const auto& each : inputs) {
    const auto rest = rest_of(each);
    if (rest != StillToRead::Everything) traffic.add(each.squares, 1);
    if (rest == StillToRead::Border) add_border(traffic, each);
    if (rest == StillToRead::Everything && known.insert(each.input.data_ptr()).second) {
      traffic.add(each.input, 1);
    }
  }
  return traffic;
}

auto rotating_inputs(const std::function<Inputs()>& make) {
  return rotating_sets(make, [](const Inputs& inputs) { return traffic_of(inputs).held; });
}

Work second_moments_work(const std::function<Inputs()>& make) {
  const auto sets = rotating_inputs(make);
  Work work;
  work.call = [sets](std::size_t set) { second_moments_cuda((*sets)[set]); };
  work.sets = sets->size();
  work.traffic = traffic_of(sets->front());
  for (const auto& moment : second_moments_cuda(sets->front())) {
    work.traffic.moved += static_cast<double>(moment.sum.nbytes());
  }
  return work;
}

/// The first of the two launches alone, with the partial sums that it writes; returns them.
torch::Tensor column_squares(const Inputs& inputs) {
  ColumnSquares squares;
  std::vector<torch::Tensor> kept;  // until the launch
  for (const auto& each : inputs) {
    const auto x = each.geometry.batched(each.input);
    kept.push_back(x.select(0, 0).is_non_overlapping_and_dense() ? x : x.contiguous());
    squares.add(kept.back());
  }
  auto partial = torch::empty({squares.size()}, torch::dtype(torch::kFloat32).device(torch::kCUDA));
  squares.launch(partial);
  return partial;
}

Work column_squares_work(const std::function<Inputs()>& make) {
  const auto sets = rotating_inputs(make);
  Work work;
  work.call = [sets](std::size_t set) { column_squares((*sets)[set]); };
  work.sets = sets->size();
  work.traffic = traffic_of(sets->front());
  work.traffic.moved += static_cast<double>(column_squares(sets->front()).nbytes());
  return work;
}

struct OneInput {
  std::vector<std::int64_t> shape;
  std::int64_t kernel;  // 0: linear
  std::int64_t stride;
  torch::ScalarType dtype;
  bool channels_last;
};

std::string name_of_input(const OneInput& input) {
  if (input.kernel == 0) return "linear/" + name_of(input.shape) + "/" + name_of(input.dtype);
  const auto kernel = name_of(std::vector<std::int64_t>{input.kernel, input.kernel});
  const auto stride = input.stride == 1 ? "" : "-stride" + std::to_string(input.stride);
  return "conv" + kernel + stride + "/" + name_of(input.shape) + "/" + name_of(input.dtype) +
         (input.channels_last ? "/nhwc" : "/nchw");
}

MomentInput make_input(const OneInput& input) {
  const auto x = normal(input.shape, input.dtype);
  if (input.kernel == 0) return {x, Geometry::linear()};
  return {input.channels_last ? x.contiguous(torch::MemoryFormat::ChannelsLast) : x,
          Geometry::convolution({input.kernel, input.kernel}, {input.stride}, {input.kernel / 2},
                                {1}, 1)};
}

std::vector<OneInput> single_inputs() {
  std::vector<OneInput> inputs{
      {{32768, 384}, 0, 1, torch::kBFloat16, false},
      {{128, 512}, 0, 1, torch::kFloat32, false},
  };
  const std::vector<std::vector<std::int64_t>> images{
      {128, 16, 32, 32}, {128, 64, 32, 32}, {128, 512, 4, 4}};
  for (const auto& shape : images) {
    for (const auto dtype : {torch::kBFloat16, torch::kHalf, torch::kFloat32}) {
      for (const bool channels_last : {false, true}) {
        inputs.push_back({shape, 3, 1, dtype, channels_last});
      }
    }
  }
  inputs.push_back({{128, 256, 16, 16}, 1, 1, torch::kBFloat16, true});
  for (const bool channels_last : {false, true}) {
    inputs.push_back({{128, 64, 32, 32}, 3, 2, torch::kBFloat16, channels_last});
    inputs.push_back({{64, 3, 224, 224}, 7, 2, torch::kBFloat16, channels_last});
  }
  return inputs;
}

enum class Offers : std::uint8_t { Declined, Taken };

class InputCollector : public Listener {
 public:
  explicit InputCollector(Offers offers) : offers_(offers) {}

  bool sums_squares() const override { return offers_ == Offers::Taken; }
  void on_input(const LayerUse& use, const torch::Tensor& input) override {
    const auto x = input.detach();
    inputs_.push_back({x, use.geometry, sums_squares() ? offered_squares(x) : torch::Tensor()});
  }
  Inputs take() { return std::exchange(inputs_, {}); }

 private:
  Offers offers_;
  Inputs inputs_;
};

/// What the layers of a model read when it is trained with bfloat16 autocast and channels last.
class ModelInputs {
 public:
  ModelInputs(const std::string& model, std::int64_t batch_size, Offers offers)
      : options_(default_model_options(model)),
        batch_size_(batch_size),
        model_(on_gpu(make_model(model, options_))),
        collector_(std::make_shared<InputCollector>(offers)),
        observer_(LayerMap(*model_), collector_) {}

  Inputs next() {
    const auto images =
        normal({batch_size_, options_.channels, options_.image_size, options_.image_size},
               torch::kFloat32)
            .contiguous(torch::MemoryFormat::ChannelsLast);
    forward_with_autocast(*model_, images, /*bf16=*/true);
    observer_.rethrow_failure();
    return collector_->take();
  }

 private:
  static std::shared_ptr<Model> on_gpu(std::shared_ptr<Model> model) {
    model->to(torch::kCUDA);
    lay_out_channels_last(*model);
    return model;
  }

  ModelOptions options_;
  std::int64_t batch_size_;
  std::shared_ptr<Model> model_;
  std::shared_ptr<InputCollector> collector_;
  Observer observer_;  // after the collector, which it is given
};

struct ModelBatch {
  const char* model;
  std::int64_t batch_size;
};
const ModelBatch kModelBatches[] = {{"resnet20", 128},
                                    {"resnet34", 128},
                                    {"densenet121", 128},
                                    {"vit_small", 64},
                                    {"vit_small", 256}};

}  // namespace

void add_second_moment_benchmarks() {
  for (const auto& input : single_inputs()) {
    add_benchmark("second_moments/" + name_of_input(input), [input] {
      return second_moments_work([&] { return Inputs{make_input(input)}; });
    });
  }
  for (const auto& [model, batch_size] : kModelBatches) {
    const std::string name = model;
    const auto with_inputs = [name, size = batch_size](const auto& make_work,
                                                       Offers offers = Offers::Declined) {
      ModelInputs inputs(name, size, offers);
      return make_work([&] { return inputs.next(); });
    };
    const auto what = name + "/batch" + std::to_string(batch_size) + "/bf16/nhwc";
    add_benchmark("second_moments/" + what,
                  [with_inputs] { return with_inputs(second_moments_work); });
    add_benchmark("second_moments_with_offers/" + what,
                  [with_inputs] { return with_inputs(second_moments_work, Offers::Taken); });
    add_benchmark("column_squares/" + what,
                  [with_inputs] { return with_inputs(column_squares_work); });
  }
}

}  // namespace adaact::bench
