#include "train/graph/graph_engine.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/cuda/CUDAGraph.h>
#include <adaact/data/device_batches.h>
#include <adaact/optim/non_finite.h>
#include <adaact/ranks/gradient_exchange.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/torch.h>
#include <torch/version.h>

#include "kernels/global_norm_cuda.h"
#include "layers/batch_part.h"
#include "layers/shared_batch_statistics.h"
#include "optim/base/step_parts.h"
#include "train/graph/fill_nodes_cuda.h"
#include "train/graph/record_reading_cuda.h"
#include "train/graph/replayed_step.h"
#include "train/graph/set_up_mutex.h"
#include "train/probes/activation_probe.h"
#include "train/step/evaluation_mode.h"
#include "train/step/generator_state.h"
#include "train/step/gradients.h"
#include "train/step/rank_totals.h"

namespace adaact {
namespace {

// From LibTorch 2.9 on a graph can be changed between its capture and its use.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 9)
std::shared_ptr<at::cuda::CUDAGraph> new_graph() {
  return std::make_shared<at::cuda::CUDAGraph>(/*keep_graph=*/true);
}
void finish(at::cuda::CUDAGraph& graph) {
  replace_fills_by_kernels(graph.raw_cuda_graph());
  graph.instantiate();
}
#else
std::shared_ptr<at::cuda::CUDAGraph> new_graph() { return std::make_shared<at::cuda::CUDAGraph>(); }
void finish(at::cuda::CUDAGraph& /*graph*/) {}
#endif

}  // namespace

Recorder cuda_graph_recorder(const std::function<void()>& wait_for_stream) {
  return [pool = at::cuda::graph_pool_handle(),
          wait_for_stream](const std::function<void()>& work) -> std::function<void()> {
    wait_for_stream();
    // What the work took when it ran is in the allocator's cache, of which a capture can have nothing.
    c10::cuda::getCurrentCUDAStream().synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
    const auto graph = new_graph();
    // Only this thread's stream: others may be training, too.
    graph->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      try {
        graph->capture_end();
      } catch (...) {  // the first error says more
      }
      throw;
    }
    graph->capture_end();
    finish(*graph);
    return [graph] { graph->replay(); };
  };
}

namespace {

class GraphEngine : public StepEngine {
 public:
  explicit GraphEngine(const TrainingTask& task)
      : task_(task),
        parts_(*StepParts::of(task.optimizer)),
        host_decides_(parts_.host_work() != HostWork::Nothing),
        exchange_(task.model, task.ranks, shares_of_mean()),
        batches_(task.train_data.dataset(), options_of(task.train_data), task.passes.device),
        test_batches_(task.test_data.dataset(), options_of(task.test_data), task.passes.device),
        readings_(torch::zeros({kMostUnread, 3},
                               torch::dtype(torch::kFloat64).device(task.passes.device))),
        next_reading_(torch::zeros({1}, torch::dtype(torch::kInt64).device(task.passes.device))),
        record_(cuda_graph_recorder([ranks = task.ranks] { ranks->wait_for_stream(); })),
        sums_(torch::zeros({3}, torch::dtype(torch::kFloat64).device(task.passes.device))),
        test_pass_(test_batches_, 0, record_),
        last_test_pass_(test_batches_, test_batches_.batches_per_epoch() - 1, record_) {}

  void start(std::int64_t epoch, std::int64_t first_batch) override {
    batches_.start(epoch, first_batch);
    next_batch_ = first_batch;
    unread_.clear();
    next_reading_.zero_();  // a step whose update threw has left a row
  }

  std::int64_t most_unread() const override { return host_decides_ ? 1 : kMostUnread; }

  void take_step() override {
    TORCH_CHECK(static_cast<std::int64_t>(unread_.size()) < kMostUnread,
                "GraphEngine: ", unread_.size(), " steps are unread, expected < ", kMostUnread);
    const bool is_last = next_batch_ == batches_.batches_per_epoch() - 1;
    const Kind kind(is_last, parts_.layers_to_observe());
    auto& step =
        steps_.try_emplace(kind, batches_, next_batch_, task_.optimizer, record_).first->second;
    if (is_last) last_of_epoch_ = &step;
    step.replayed.take([&] { run_passes(step, is_last); });
    catch_up_with_generator(step.batch.whole, task_.train_data.options(), task_.passes.device,
                            *task_.ranks);
    ++next_batch_;
    unread_.push_back(step.batch.whole);
  }

  StepReadings read() override {
    const auto images = std::exchange(unread_, {});
    const auto count = static_cast<std::int64_t>(images.size());
    task_.ranks->wait_for_stream();
    const auto values = readings_.narrow(0, 0, count).cpu();
    add_up_readings(values);
    next_reading_.zero_();
    const auto rows = values.accessor<double, 2>();
    StepReadings readings;
    for (std::int64_t i = 0; i < count; ++i) {
      readings.steps.push_back({rows[i][0], static_cast<std::int64_t>(rows[i][1]), rows[i][2],
                                images[static_cast<std::size_t>(i)], /*batches=*/1});
    }
    if (!host_decides_) settle(readings);
    return readings;
  }

  SecondMoments second_moments() const override {
    return of_all_ranks(last_of_epoch_->moments.read(), last_of_epoch_->batch.labels.size(0),
                        task_.model, *task_.ranks);
  }

  std::optional<Evaluation> evaluate(const std::function<bool()>& should_stop) override {
    const torch::NoGradGuard no_grad;
    const EvaluationMode mode(task_.model);
    sums_.zero_();
    test_batches_.start(/*epoch=*/0);
    // What a rank's own images have made of them, such as running averages, is not everybody's.
    task_.ranks->broadcast(task_.model.buffers(), /*root=*/0);
    const auto count = test_batches_.batches_per_epoch();
    std::int64_t images = 0;
    for (std::int64_t batch = 0; batch < count; ++batch) {
      if (should_stop()) return std::nullopt;
      images += test_batches_.batch_size(batch);
      auto& pass = batch == count - 1 ? last_test_pass_ : test_pass_;
      pass.replayed.run([&] {
        test_batches_.enqueue_next(pass.batch.images, pass.batch.labels);
        if (pass.batch.labels.size(0) == 0) return;
        sums_ += evaluation_pass(task_.model, pass.batch.images, pass.batch.labels, task_.passes);
      });
    }
    task_.ranks->wait_for_stream();
    return of_all_ranks(to_evaluation(sums_.cpu(), images), *task_.ranks);
  }

 private:
  /// No more steps than this go unread, so that progress is seen and a wish to stop is heard.
  static constexpr std::int64_t kMostUnread = 64;

  /// The memory that batches as large as the one of this number are written to.
  struct GpuBatch {
    GpuBatch(const DeviceBatches& batches, std::int64_t number)
        : images(batches.empty_images(batches.batch_size(number))),
          labels(batches.empty_labels(batches.batch_size(number))),
          begin(batches.images_before(number)),
          whole(batches.whole_batch_size(number)) {}
    torch::Tensor images;
    torch::Tensor labels;
    std::int64_t begin;  // how many images are in the parts of the ranks before
    std::int64_t whole;  // images of all ranks
  };

  struct Step {
    Step(const DeviceBatches& batches, std::int64_t number, torch::optim::Optimizer& optimizer,
         const Recorder& record)
        : batch(batches, number), replayed(&optimizer, record) {}
    GpuBatch batch;
    ReplayedStep replayed;
    MomentReadings moments;
  };

  struct TestPass {
    TestPass(const DeviceBatches& batches, std::int64_t number, const Recorder& record)
        : batch(batches, number), replayed(record) {}
    GpuBatch batch;
    ReplayedWork replayed;
  };

  /// The last step of an epoch is of its own kind: its batch may be smaller, and it also measures
  /// activations. So is every set of layers that passes may have to observe.
  using Kind = std::pair<bool, std::vector<bool>>;

  DeviceBatches::Options options_of(const Loader& data) const {
    auto options = DeviceBatches::Options::of(data.options(), task_.passes.channels_last);
    options.dtype = task_.passes.image_dtype();
    return options;
  }

  void run_passes(Step& step, bool is_last) {
    std::optional<ActivationProbe> probe;
    if (is_last) probe.emplace(task_.model);
    const auto& [images, labels, begin, whole] = step.batch;
    batches_.enqueue_next(images, labels);
    task_.optimizer.zero_grad();
    std::optional<SharedBatchStatistics> statistics;
    if (task_.sync_batchnorm && !task_.ranks->is_alone()) statistics.emplace(task_.ranks);
    const bool has_pass = labels.size(0) > 0 || statistics;
    const Targets targets{labels};
    const BatchPart part(begin, whole);
    const auto pass =
        has_pass ? training_pass(task_.model, images, targets, whole, task_.passes) : no_pass();
    exchange_.finish();
    record_reading_cuda(pass.loss, pass.correct(targets),
                        global_norm_cuda(model_gradients(task_.model)), readings_, next_reading_);
    if (probe) step.moments = probe->take_on_device();
  }

  /// What a rank that has none of a batch's images takes for its pass: a loss and right answers of 0.
  TrainingPass no_pass() const {
    const auto on_device = torch::dtype(torch::kFloat32).device(task_.passes.device);
    return {torch::zeros({}, on_device), {}, torch::zeros({}, on_device.dtype(torch::kLong))};
  }

  /// Loss and right answers are those of a rank's own images; the gradient is everybody's.
  void add_up_readings(const torch::Tensor& readings) const {
    if (task_.ranks->size() == 1) return;
    if (!task_.ranks->is_first()) readings.select(1, 2).zero_();
    task_.ranks->sum({readings});
  }

  void settle(StepReadings& readings) {
    try {
      parts_.settle();
    } catch (const NonFiniteError&) {
      auto& steps = readings.steps;
      const auto first = std::find_if(steps.begin(), steps.end() - 1, [](const auto& reading) {
        return !std::isfinite(reading.loss) || !std::isfinite(reading.gradient_norm);
      });
      steps.erase(first, steps.end());
      readings.rejection = std::current_exception();
    }
  }

  const TrainingTask task_;
  StepParts& parts_;
  const bool host_decides_;
  GradientExchange exchange_;
  DeviceBatches batches_;
  DeviceBatches test_batches_;
  torch::Tensor readings_;      // (steps, 3): loss, right answers, norm of the gradient
  torch::Tensor next_reading_;  // (1): the row that the next step writes
  const Recorder record_;
  torch::Tensor sums_;  // as evaluation_pass() gives them, over the test batches so far
  TestPass test_pass_;
  TestPass last_test_pass_;  // its batch may be smaller
  std::map<Kind, Step> steps_;
  const Step* last_of_epoch_ = nullptr;
  std::int64_t next_batch_ = 0;
  std::vector<std::int64_t> unread_;  // images of each step
};

}  // namespace

std::unique_ptr<StepEngine> make_graph_engine(const TrainingTask& task) {
  const std::lock_guard<std::mutex> lock(set_up_mutex());
  return std::make_unique<GraphEngine>(task);
}

std::string obstacle_to_graph_engine(const torch::optim::Optimizer& optimizer,
                                     const Loader& train_data, const Loader& test_data,
                                     torch::Device device) {
  for (const auto* data : {&train_data, &test_data}) {
    if (!DeviceBatches::fits(data->dataset(), device)) {
      return "data of this size do not fit on the GPU";
    }
  }
  const auto* parts = StepParts::of(optimizer);
  const bool can_be_captured = parts != nullptr && parts->host_work() != HostWork::Everything;
  return can_be_captured ? "" : "this optimizer's steps cannot be captured";
}

}  // namespace adaact
