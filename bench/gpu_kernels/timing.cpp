// How work is timed, and against what.

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <benchmark/benchmark.h>
#include <c10/cuda/CUDAException.h>
#include <torch/torch.h>

#include "gpu_kernels/work.h"
#include "optim/device/device_step.h"
#include "train/graph/replayed_step.h"

namespace adaact::bench {
namespace {

constexpr int kIterations = 30;  // of a benchmark; each is a replay
constexpr int kWarmUpReplays = 5;
constexpr std::size_t kFewestSets = 3;
constexpr double kCachesToFill = 2.0;  // all sets together, in L2 caches

/// A replay should take about this long, for the start of a graph not to matter. How many calls that
/// are needs only a guess of how fast the GPU is.
constexpr double kReplaySeconds = 2e-3;
constexpr double kGuessedBytesPerSecond = 4e12;
constexpr double kGuessedShortestCall = 8e-6;

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
    replay_captured_ = cuda_graph_recorder()([&] {
      for (std::size_t i = 0; i < calls_; ++i) work.call(i % work.sets);
      nodes_ = nodes_under_capture();
    });
    for (int i = 0; i < kWarmUpReplays; ++i) replay();
  }

  double seconds_per_call() {
    replay();  // the GPU is busy until the host has enqueued what is timed
    prepare_();
    start_.record();
    replay_captured_();
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
    replay_captured_();
  }

  const std::size_t calls_;
  const std::function<void()> prepare_;
  std::size_t nodes_ = 0;
  at::cuda::CUDAEvent start_{cudaEventDefault};
  at::cuda::CUDAEvent stop_{cudaEventDefault};
  std::function<void()> replay_captured_;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

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

/// The floors of this GPU, measured when they are first asked for.
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

}  // namespace

std::size_t sets_for(double set_bytes) {
  const auto cache = static_cast<double>(at::cuda::getCurrentDeviceProperties()->l2CacheSize);
  const auto sets = std::ceil(kCachesToFill * cache / std::max(set_bytes, 1.0));
  return static_cast<std::size_t>(
      std::clamp(sets, static_cast<double>(kFewestSets), static_cast<double>(kMostSets)));
}

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

void add_floor_benchmarks() {
  add_benchmark("floor/copy", copy_work);
  add_benchmark("floor/memcpy", memcpy_work);
  add_benchmark("floor/read", read_work);
  add_benchmark("floor/launch", launch_work);
}

}  // namespace adaact::bench
