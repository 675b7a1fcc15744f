// Measures this library's CUDA kernels against what no kernel could beat: the time that the bytes it
// has to move take at the speed of a plain copy, and the time of as many launches that do nothing.
//
// Calls are captured in a CUDA graph and timed by the GPU, so that the host does not count. They work
// on several sets of tensors in turn, which together are larger than the L2 cache: what a call needs
// comes from memory. Counters of every benchmark:
//
//   MB         that a call has to move; see gpu.md
//   us         of a call, the median
//   GB/s       MB / us
//   floor_us   MB at the fastest of floor/copy and floor/read
//   fraction   floor_us / us
//   launches   of a call
//   launch_us  as many launches of floor/launch
//   set_MB     of all tensors of a call: what is smaller than the L2 cache may stay there in training
//   sets       in turn

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <adaact/data/device_batches.h>
#include <adaact/data/synthetic.h>
#include <adaact/models/registry.h>
#include <adaact/observe/observer.h>
#include <benchmark/benchmark.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/torch.h>
#include <torch/version.h>

#include "moments/column_squares_cuda.h"
#include "moments/second_moments_cuda.h"
#include "optim/adaact_update_cuda.h"
#include "optim/adan_update_cuda.h"
#include "optim/device_step.h"
#include "optim/global_norm_cuda.h"
#include "optim/lamb_update_cuda.h"
#include "train/autocast.h"
#include "train/captured_work.h"
#include "train/run_parts.h"

namespace adaact::bench {
namespace {

constexpr int kIterations = 30;  // of a benchmark; each is a replay
constexpr int kWarmUpReplays = 5;
constexpr std::size_t kFewestSets = 3;
constexpr std::size_t kMostSets = 512;
constexpr double kCachesToFill = 2.0;  // all sets together, in L2 caches

/// A replay should take about this long, for the start of a graph not to matter. How many calls that
/// are needs only a guess of how fast the GPU is.
constexpr double kReplaySeconds = 2e-3;
constexpr double kGuessedBytesPerSecond = 4e12;
constexpr double kGuessedShortestCall = 8e-6;
constexpr std::size_t kMostCalls = 256 + kMostSets;  // follows from these numbers

// How work is timed.

/// Memory that a call works on.
struct Traffic {
  double moved = 0.0;  // bytes; a tensor that is read and written counts twice
  double held = 0.0;   // bytes of all tensors

  void add(const torch::Tensor& tensor, int times) {
    if (!tensor.defined()) return;
    const auto bytes = static_cast<double>(tensor.nbytes());
    moved += times * bytes;
    held += bytes;
  }
};

/// A call, and what it works on.
struct Work {
  std::function<void(std::size_t set)> call;
  std::size_t sets = 1;
  Traffic traffic;                        // of one call
  std::int64_t images = 0;                // that one call makes
  std::function<void()> prepare = [] {};  // what a replay needs; is not timed
};

/// So many that the L2 cache does not hold what the next call needs.
std::size_t sets_for(double set_bytes) {
  const auto cache = static_cast<double>(at::cuda::getCurrentDeviceProperties()->l2CacheSize);
  const auto sets = std::ceil(kCachesToFill * cache / std::max(set_bytes, 1.0));
  return static_cast<std::size_t>(
      std::clamp(sets, static_cast<double>(kFewestSets), static_cast<double>(kMostSets)));
}

/// Sets as make() makes them. Shared, because calls outlive the function that asks for them.
template <typename Make, typename BytesOf>
auto rotating_sets(const Make& make, const BytesOf& bytes_of) {
  auto sets = std::make_shared<std::vector<decltype(make())>>();
  sets->push_back(make());
  const auto count = sets_for(bytes_of(sets->front()));
  while (sets->size() < count) sets->push_back(make());
  return sets;
}

/// A multiple of the number of sets, so that every replay moves the same.
std::size_t calls_of_a_replay(const Work& work) {
  const auto guess = std::max(kGuessedShortestCall, work.traffic.moved / kGuessedBytesPerSecond);
  const auto rounds = std::ceil(kReplaySeconds / guess / static_cast<double>(work.sets));
  return static_cast<std::size_t>(rounds) * work.sets;
}

std::size_t nodes_under_capture() {
  cudaStreamCaptureStatus status{};
  cudaGraph_t graph = nullptr;
  const auto stream = at::cuda::getCurrentCUDAStream();
#if CUDART_VERSION >= 13000
  C10_CUDA_CHECK(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph));
#else
  C10_CUDA_CHECK(cudaStreamGetCaptureInfo_v2(stream, &status, nullptr, &graph));
#endif
  std::size_t nodes = 0;
  C10_CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  return nodes;
}

/// Many calls as one graph.
class GraphTimer {
 public:
  explicit GraphTimer(const Work& work) : calls_(calls_of_a_replay(work)), prepare_(work.prepare) {
    prepare_();
    work.call(0);
    torch::cuda::synchronize();
    captured_ = std::make_unique<CapturedWork>(at::cuda::graph_pool_handle(), [&] {
      for (std::size_t i = 0; i < calls_; ++i) work.call(i % work.sets);
      nodes_ = nodes_under_capture();
    });
    for (int i = 0; i < kWarmUpReplays; ++i) replay();
  }

  double seconds_per_call() {
    replay();  // the GPU is busy until the host has enqueued what is timed
    prepare_();
    start_.record();
    captured_->replay();
    stop_.record();
    stop_.synchronize();
    return static_cast<double>(start_.elapsed_time(stop_)) * 1e-3 / static_cast<double>(calls_);
  }

  double launches_per_call() const {
    return static_cast<double>(nodes_) / static_cast<double>(calls_);
  }

 private:
  void replay() {
    prepare_();
    captured_->replay();
  }

  const std::size_t calls_;
  const std::function<void()> prepare_;
  std::size_t nodes_ = 0;
  at::cuda::CUDAEvent start_{cudaEventDefault};
  at::cuda::CUDAEvent stop_{cudaEventDefault};
  std::unique_ptr<CapturedWork> captured_;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Floors.

constexpr std::int64_t kLargeBytes = std::int64_t{1} << 30;

constexpr auto kLargeCount = kLargeBytes / static_cast<std::int64_t>(sizeof(float));

torch::Tensor large_zeros() {
  return torch::zeros({kLargeCount}, torch::dtype(torch::kFloat32).device(torch::kCUDA));
}

Work from_one_to_another(const std::function<void(const torch::Tensor&, torch::Tensor&)>& write) {
  const auto from = large_zeros();
  auto to = torch::empty_like(from);
  Work work;
  work.call = [=](std::size_t /*set*/) mutable { write(from, to); };
  work.traffic.add(from, 1);
  work.traffic.add(to, 1);
  return work;
}

/// A kernel, as those are that are measured.
Work copy_work() {
  return from_one_to_another(
      [](const torch::Tensor& from, torch::Tensor& to) { torch::neg_out(to, from); });
}

/// What the driver makes of a copy in a graph is not the fastest copy.
Work memcpy_work() {
  return from_one_to_another([](const torch::Tensor& from, torch::Tensor& to) { to.copy_(from); });
}

Work read_work() {
  const auto values = large_zeros();
  Work work;
  work.call = [values](std::size_t /*set*/) { values.sum(); };
  work.traffic.add(values, 1);
  return work;
}

/// The kernel that begins a step has one thread, which writes one number.
Work launch_work() {
  const auto step = make_device_step(/*groups=*/1, torch::kCUDA);
  Work work;
  work.call = [step](std::size_t /*set*/) { begin_step_cuda(step); };
  work.traffic.add(step.bad, 1);
  return work;
}

struct Floors {
  double bytes_per_second;
  double launch_seconds;
};

double median_seconds(const Work& work) {
  GraphTimer timer(work);
  std::vector<double> times;
  for (int i = 0; i < kIterations; ++i) times.push_back(timer.seconds_per_call());
  return median(times);
}

/// Of this GPU, measured when they are first asked for.
const Floors& floors() {
  static const Floors measured = [] {
    const auto speed_of = [](const Work& work) {
      return work.traffic.moved / median_seconds(work);
    };
    return Floors{std::max(speed_of(copy_work()), speed_of(read_work())),
                  median_seconds(launch_work())};
  }();
  return measured;
}

// Benchmarks in general.

void run_benchmark(benchmark::State& state, const Work& work) {
  const auto floor = work.traffic.moved / floors().bytes_per_second;
  GraphTimer timer(work);
  std::vector<double> times;
  for (auto _ : state) {
    times.push_back(timer.seconds_per_call());
    state.SetIterationTime(times.back());
  }
  const auto seconds = median(times);
  state.counters["MB"] = work.traffic.moved * 1e-6;
  state.counters["us"] = seconds * 1e6;
  state.counters["GB/s"] = work.traffic.moved / seconds * 1e-9;
  state.counters["floor_us"] = floor * 1e6;
  state.counters["fraction"] = floor / seconds;
  state.counters["launches"] = timer.launches_per_call();
  state.counters["launch_us"] = timer.launches_per_call() * floors().launch_seconds * 1e6;
  state.counters["set_MB"] = work.traffic.held * 1e-6;
  state.counters["sets"] = static_cast<double>(work.sets);
  if (work.images > 0) {
    state.counters["images/s"] = static_cast<double>(work.images) / seconds;
  }
}

/// The work is made when the benchmark runs and freed after it.
void add_benchmark(const std::string& name, const std::function<Work()>& make_work) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [make_work](benchmark::State& state) {
                                 try {
                                   run_benchmark(state, make_work());
                                 } catch (const std::exception& error) {
                                   state.SkipWithError(error.what());
                                 }
                               })
      ->UseManualTime()
      ->Iterations(kIterations)
      ->Unit(benchmark::kMicrosecond);
}

std::string name_of(torch::ScalarType dtype) {
  if (dtype == torch::kBFloat16) return "bf16";
  return dtype == torch::kHalf ? "fp16" : "fp32";
}

std::string name_of(const std::vector<std::int64_t>& shape) {
  std::string name;
  for (const auto size : shape) name += (name.empty() ? "" : "x") + std::to_string(size);
  return name;
}

torch::Tensor normal(at::IntArrayRef shape, torch::ScalarType dtype) {
  return torch::randn(shape, torch::kCUDA).to(dtype);
}

torch::Tensor positive(at::IntArrayRef shape) { return torch::rand(shape, torch::kCUDA) + 0.1; }

// Second moments.

using Inputs = std::vector<MomentInput>;

/// Every input is read once. Layers side by side may have the same one.
Traffic traffic_of(const Inputs& inputs) {
  Traffic traffic;
  std::set<const void*> known;
  for (const auto& each : inputs) {
    if (known.insert(each.input.data_ptr()).second) traffic.add(each.input, 1);
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

std::string name_of(const OneInput& input) {
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

class InputCollector : public Listener {
 public:
  void on_input(const LayerUse& use, const torch::Tensor& input) override {
    inputs_.push_back({input.detach(), use.geometry});
  }
  Inputs take() { return std::exchange(inputs_, {}); }

 private:
  Inputs inputs_;
};

/// What the layers of a model read when it is trained with bfloat16 autocast and channels last.
class ModelInputs {
 public:
  ModelInputs(const std::string& model, std::int64_t batch_size)
      : options_(default_model_options(model)),
        batch_size_(batch_size),
        model_(on_gpu(make_model(model, options_))),
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
  std::shared_ptr<InputCollector> collector_ = std::make_shared<InputCollector>();
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

void add_second_moment_benchmarks() {
  for (const auto& input : single_inputs()) {
    add_benchmark("second_moments/" + name_of(input), [input] {
      return second_moments_work([&] { return Inputs{make_input(input)}; });
    });
  }
  for (const auto& [model, batch_size] : kModelBatches) {
    const std::string name = model;
    const auto with_inputs = [name, size = batch_size](const auto& make_work) {
      ModelInputs inputs(name, size);
      return make_work([&] { return inputs.next(); });
    };
    const auto what = name + "/batch" + std::to_string(batch_size) + "/bf16/nhwc";
    add_benchmark("second_moments/" + what,
                  [with_inputs] { return with_inputs(second_moments_work); });
    add_benchmark("column_squares/" + what,
                  [with_inputs] { return with_inputs(column_squares_work); });
  }
}

// Updates. The learning rate of a new DeviceStep is 0, so that parameters stay where they are.

constexpr std::int64_t kUpdatesBefore = 100;

struct AdaActRule {
  using Parameter = AdaActParameter;

  static Parameter make(const NamedParameter& named, torch::ScalarType dtype) {
    const auto shape = named.tensor.sizes();
    Parameter parameter;
    parameter.tensors.theta = normal(shape, dtype);
    parameter.tensors.g = normal(shape, dtype);
    parameter.tensors.m = normal(shape, torch::kFloat32);
    if (named.is_layer_weight) {
      const auto columns = named.tensor.numel() / named.tensor.size(0);
      parameter.tensors.v = positive({1, columns});
      parameter.tensors.sum = positive({1, columns});
    }
    parameter.beta1 = 0.9;
    parameter.beta2 = 0.999;
    parameter.eps = 1e-8;
    parameter.weight_decay = 5e-4;
    parameter.count = 128;
    parameter.updates = parameter.observations = kUpdatesBefore;
    return parameter;
  }

  static void add_traffic(const Parameter& parameter, Traffic& traffic) {
    const auto& [theta, g, m, v, sum] = parameter.tensors;
    for (const auto* read_and_written : {&theta, &m, &v}) traffic.add(*read_and_written, 2);
    for (const auto* read : {&g, &sum}) traffic.add(*read, 1);
  }

  static void update(const std::vector<Parameter>& parameters, const DeviceStep& step) {
    adaact_update_cuda(parameters, &step);
  }
};

struct AdanRule {
  using Parameter = AdanParameter;

  static Parameter make(const NamedParameter& named, torch::ScalarType dtype) {
    const auto shape = named.tensor.sizes();
    Parameter parameter;
    parameter.tensors = {
        normal(shape, dtype),           normal(shape, dtype), normal(shape, torch::kFloat32),
        normal(shape, torch::kFloat32), positive(shape),      normal(shape, torch::kFloat32)};
    parameter.beta1 = 0.98;
    parameter.beta2 = 0.92;
    parameter.beta3 = 0.99;
    parameter.eps = 1e-8;
    parameter.weight_decay = 0.02;
    parameter.updates = kUpdatesBefore;
    return parameter;
  }

  static void add_traffic(const Parameter& parameter, Traffic& traffic) {
    const auto& [theta, g, m, v, n, previous] = parameter.tensors;
    for (const auto* read_and_written : {&theta, &m, &v, &n, &previous}) {
      traffic.add(*read_and_written, 2);
    }
    traffic.add(g, 1);
  }

  static void update(const std::vector<Parameter>& parameters, const DeviceStep& step) {
    adan_update_cuda(parameters, /*gradient_norm=*/{}, &step);
  }
};

struct LambRule {
  using Parameter = LambParameter;

  static Parameter make(const NamedParameter& named, torch::ScalarType dtype) {
    const auto shape = named.tensor.sizes();
    Parameter parameter;
    parameter.tensors = {normal(shape, dtype), normal(shape, dtype), normal(shape, torch::kFloat32),
                         positive(shape)};
    parameter.beta1 = 0.9;
    parameter.beta2 = 0.999;
    parameter.eps = 1e-6;
    parameter.weight_decay = 0.01;
    parameter.updates = kUpdatesBefore;
    return parameter;
  }

  /// The norms of θ and u are known only after all of the tensor was read, so that θ, m and v are
  /// read once more for the update.
  static void add_traffic(const Parameter& parameter, Traffic& traffic) {
    const auto& [theta, g, m, v] = parameter.tensors;
    for (const auto* read_twice_and_written : {&theta, &m, &v}) {
      traffic.add(*read_twice_and_written, 3);
    }
    traffic.add(g, 1);
  }

  static void update(const std::vector<Parameter>& parameters, const DeviceStep& step) {
    lamb_update_cuda(parameters, /*gradient_norm=*/{}, &step);
  }
};

template <typename Rule>
Traffic traffic_of_update(const std::vector<typename Rule::Parameter>& parameters) {
  Traffic traffic;
  for (const auto& parameter : parameters) Rule::add_traffic(parameter, traffic);
  return traffic;
}

template <typename Rule>
Work update_work(const std::string& model_name, torch::ScalarType dtype) {
  const auto model = make_model(model_name);
  const LayerMap map(*model);
  const auto make = [&] {
    std::vector<typename Rule::Parameter> parameters;
    for (const auto& named : map.parameters()) {
      parameters.push_back(Rule::make(named, dtype));
      TORCH_CHECK(can_update_cuda(parameters.back()), "the kernels do not take ", named.name);
    }
    return parameters;
  };
  const auto sets = rotating_sets(
      make, [](const auto& parameters) { return traffic_of_update<Rule>(parameters).held; });
  const auto step = make_device_step(/*groups=*/1, torch::kCUDA);
  Work work;
  work.call = [sets, step](std::size_t set) { Rule::update((*sets)[set], step); };
  work.sets = sets->size();
  work.traffic = traffic_of_update<Rule>(sets->front());
  return work;
}

const char* const kModels[] = {"resnet20", "resnet34", "densenet121", "vit_small"};
const torch::ScalarType kParameterDtypes[] = {torch::kFloat32, torch::kBFloat16};

void add_update_benchmarks() {
  for (const std::string model : kModels) {
    for (const auto dtype : kParameterDtypes) {
      const auto what = model + "/" + name_of(dtype);
      add_benchmark("adaact_update/" + what, [=] { return update_work<AdaActRule>(model, dtype); });
      add_benchmark("adan_update/" + what, [=] { return update_work<AdanRule>(model, dtype); });
      add_benchmark("lamb_update/" + what, [=] { return update_work<LambRule>(model, dtype); });
    }
  }
}

// What reads all gradients.

using Tensors = std::vector<torch::Tensor>;

Work gradients_work(const std::string& model_name, torch::ScalarType dtype,
                    const std::function<void(const Tensors&)>& read) {
  const auto model = make_model(model_name);
  const auto make = [&] {
    Tensors gradients;
    for (const auto& parameter : model->parameters()) {
      gradients.push_back(normal(parameter.sizes(), dtype));
    }
    return gradients;
  };
  const auto traffic_of_gradients = [](const Tensors& gradients) {
    Traffic traffic;
    for (const auto& gradient : gradients) traffic.add(gradient, 1);
    return traffic;
  };
  const auto sets = rotating_sets(
      make, [&](const Tensors& gradients) { return traffic_of_gradients(gradients).held; });
  Work work;
  work.call = [sets, read](std::size_t set) { read((*sets)[set]); };
  work.sets = sets->size();
  work.traffic = traffic_of_gradients(sets->front());
  return work;
}

void add_gradient_benchmarks() {
  for (const std::string model : kModels) {
    for (const auto dtype : kParameterDtypes) {
      const auto what = model + "/" + name_of(dtype);
      add_benchmark("global_norm/" + what, [=] {
        return gradients_work(model, dtype,
                              [](const Tensors& gradients) { global_norm_cuda(gradients); });
      });
      add_benchmark("check_finite/" + what, [=] {
        const auto step = make_device_step(/*groups=*/1, torch::kCUDA);
        return gradients_work(model, dtype, [step](const Tensors& gradients) {
          check_finite_cuda(gradients, /*first_index=*/0, step);
        });
      });
    }
  }
}

// Batches.

Work batches_work(torch::ScalarType dtype, bool channels_last) {
  auto options = DeviceBatches::Options::training();
  options.dtype = dtype;
  options.channels_last = channels_last;
  SyntheticOptions synthetic;
  // After the last batch of an epoch the kernel would have nothing to read.
  synthetic.size = options.batch_size * static_cast<std::int64_t>(kMostCalls);
  static const auto data = make_synthetic(synthetic);
  const auto batches = std::make_shared<DeviceBatches>(*data, options, torch::kCUDA);

  struct Batch {
    torch::Tensor images;
    torch::Tensor labels;
  };
  const auto make = [&] {
    return Batch{batches->empty_images(options.batch_size),
                 batches->empty_labels(options.batch_size)};
  };
  const auto sets = rotating_sets(
      make, [](const Batch& batch) { return static_cast<double>(batch.images.nbytes()); });
  Work work;
  work.call = [sets, batches](std::size_t set) {
    const auto& batch = (*sets)[set];
    batches->enqueue_next(batch.images, batch.labels);
  };
  work.prepare = [batches] { batches->start(/*epoch=*/0); };
  work.sets = sets->size();
  work.images = options.batch_size;
  const auto& written = sets->front();
  work.traffic.add(written.images, 1);
  work.traffic.add(written.labels, 3);  // order and labels of the samples are read
  const auto pixels = static_cast<double>(options.batch_size * data->shape().bytes());
  work.traffic.moved += pixels;
  work.traffic.held += pixels;
  return work;
}

void add_batch_benchmarks() {
  add_benchmark("device_batches/128x3x32x32/fp32/nchw",
                [] { return batches_work(torch::kFloat32, /*channels_last=*/false); });
  add_benchmark("device_batches/128x3x32x32/fp32/nhwc",
                [] { return batches_work(torch::kFloat32, /*channels_last=*/true); });
  add_benchmark("device_batches/128x3x32x32/bf16/nhwc",
                [] { return batches_work(torch::kBFloat16, /*channels_last=*/true); });
}

int run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  if (!torch::cuda::is_available()) {
    std::fprintf(stderr, "gpu_kernels: there is no CUDA device\n");
    return 1;
  }
  // Graphs cannot be captured on the default stream.
  const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());
  torch::manual_seed(0);
  const auto* gpu = at::cuda::getCurrentDeviceProperties();
  benchmark::AddCustomContext("gpu", gpu->name);
  benchmark::AddCustomContext("l2_cache_bytes", std::to_string(gpu->l2CacheSize));
  benchmark::AddCustomContext("cuda", std::to_string(CUDART_VERSION));
  benchmark::AddCustomContext("libtorch", TORCH_VERSION);

  add_benchmark("floor/copy", copy_work);
  add_benchmark("floor/memcpy", memcpy_work);
  add_benchmark("floor/read", read_work);
  add_benchmark("floor/launch", launch_work);
  add_second_moment_benchmarks();
  add_update_benchmarks();
  add_gradient_benchmarks();
  add_batch_benchmarks();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace adaact::bench

int main(int argc, char** argv) { return adaact::bench::run(argc, argv); }
