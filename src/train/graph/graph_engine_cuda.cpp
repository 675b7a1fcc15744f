#include "train/graph/graph_engine.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/cuda/CUDAGraph.h>
#include <adaact/optim/non_finite.h>
#include <adaact/ranks/gradient_exchange.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/torch.h>
#include <torch/version.h>

#include "layers/batch_part.h"
#include "layers/shared_batch_statistics.h"
#include "optim/base/step_parts.h"
#include "train/graph/batch_source.h"
#include "train/graph/fill_nodes_cuda.h"
#include "train/graph/record_reading_cuda.h"
#include "train/graph/replayed_step.h"
#include "train/graph/set_up_mutex.h"
#include "train/graph/step_batches.h"
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

/// Loss and right answers of a step's passes together, still on the device. One pass alone costs nothing.
struct PassSums {
  torch::Tensor loss = {};
  torch::Tensor correct = {};

  void add(const TrainingPass& pass, const Targets& targets) {
    const auto more = pass.correct(targets);
    const bool is_first = !loss.defined();
    loss = is_first ? pass.loss : loss.to(torch::kFloat64) + pass.loss.to(torch::kFloat64);
    correct = is_first ? more : correct + more;
  }
};

struct Sources {
  std::unique_ptr<BatchSource> train;
  std::unique_ptr<BatchSource> test;

  static Sources of(const TrainingTask& task) {
    const auto& passes = task.passes;
    // Both are asked before either takes memory.
    const bool train_can_stay = can_be_resident(task.train_data, passes.device, *task.ranks);
    const bool test_can_stay = can_be_resident(task.test_data, passes.device, *task.ranks);
    const auto source = [&](Loader& data, bool can_stay) {
      return can_stay ? resident_batches(data, passes) : fed_batches(data, passes, task.ranks);
    };
    return {source(task.train_data, train_can_stay), source(task.test_data, test_can_stay)};
  }
};

class GraphEngine : public StepEngine {
 public:
  GraphEngine(const TrainingTask& task, std::int64_t accumulation, double clip_norm)
      : task_(task),
        accumulation_(accumulation),
        clip_norm_(clip_norm),
        parts_(*StepParts::of(task.optimizer)),
        host_decides_(parts_.host_work() != HostWork::Nothing),
        exchange_(task.model, task.ranks, shares_of_mean()),
        batches_(Sources::of(task)),
        readings_(torch::zeros({kMostUnread, 3},
                               torch::dtype(torch::kFloat64).device(task.passes.device))),
        next_reading_(torch::zeros({1}, torch::dtype(torch::kInt64).device(task.passes.device))),
        record_(cuda_graph_recorder([ranks = task.ranks] { ranks->wait_for_stream(); })),
        sums_(torch::zeros({3}, torch::dtype(torch::kFloat64).device(task.passes.device))),
        test_pass_(record_),
        last_test_pass_(record_) {}

  void start(std::int64_t epoch, std::int64_t first_batch) override {
    batches_.train->start(epoch, first_batch);
    next_batch_ = first_batch;
    unread_.clear();
    next_reading_.zero_();  // a step whose update threw has left a row
  }

  std::int64_t most_unread() const override {
    if (host_decides_) return 1;
    const auto steps = batches_.train->most_unread() / accumulation_;
    return std::clamp<std::int64_t>(steps, 1, kMostUnread);
  }

  void take_step() override {
    TORCH_CHECK(static_cast<std::int64_t>(unread_.size()) < kMostUnread,
                "GraphEngine: ", unread_.size(), " steps are unread, expected < ", kMostUnread);
    const auto of_step =
        step_batches(next_batch_, accumulation_, batches_.train->batches_per_epoch());
    const Kind kind(of_step.count, of_step.is_last, parts_.layers_to_observe());
    auto& step = steps_.try_emplace(kind, of_step.count, task_.optimizer, record_).first->second;
    if (of_step.is_last) last_of_epoch_ = &step;
    StepReading reading;
    reading.batches = of_step.count;
    reading.wait_seconds = prepare_batches(step);
    reading.images = step.images();
    step.replayed.take([&] { run_passes(step, of_step.is_last); });
    // Those before the last have images for every rank: obstacle_to_graph() lets no others through.
    catch_up_with_generator(step.batches.back().whole, task_.train_data.options(),
                            task_.passes.device, *task_.ranks);
    next_batch_ += of_step.count;
    unread_.push_back(reading);
  }

  StepReadings read() override {
    StepReadings readings{std::exchange(unread_, {}), nullptr};
    const auto count = static_cast<std::int64_t>(readings.steps.size());
    task_.ranks->wait_for_stream();
    const auto values = readings_.narrow(0, 0, count).cpu();
    add_up_readings(values);
    next_reading_.zero_();
    const auto rows = values.accessor<double, 2>();
    for (std::int64_t i = 0; i < count; ++i) {
      auto& reading = readings.steps[static_cast<std::size_t>(i)];
      reading.loss = rows[i][0];
      reading.correct = static_cast<std::int64_t>(rows[i][1]);
      reading.gradient_norm = rows[i][2];
    }
    if (!host_decides_) settle(readings);
    return readings;
  }

  SecondMoments second_moments() const override {
    return of_all_ranks(last_of_epoch_->moments.read(), last_of_epoch_->own_images(), task_.model,
                        *task_.ranks);
  }

  std::optional<Evaluation> evaluate(const std::function<bool()>& should_stop) override {
    const torch::NoGradGuard no_grad;
    const EvaluationMode mode(task_.model);
    sums_.zero_();
    batches_.test->start(/*epoch=*/0, /*first_batch=*/0);
    // What a rank's own images have made of them, such as running averages, is not everybody's.
    task_.ranks->broadcast(task_.model.buffers(), /*root=*/0);
    const auto count = batches_.test->batches_per_epoch();
    std::int64_t images = 0;
    for (std::int64_t number = 0; number < count; ++number) {
      if (should_stop()) return std::nullopt;
      auto& [batch, replayed] = number == count - 1 ? last_test_pass_ : test_pass_;
      batches_.test->prepare(batch, number);
      images += batch.size();
      if (batch.size() == 0) {
        batches_.test->enqueue_next(batch);  // to its place in the epoch, for the next one
        continue;
      }
      replayed.run([this, &batch = batch] {
        batches_.test->enqueue_next(batch);
        sums_ += evaluation_pass(task_.model, batch.images, batch.targets.labels, task_.passes);
      });
    }
    task_.ranks->wait_for_stream();
    return of_all_ranks(to_evaluation(sums_.cpu(), images), *task_.ranks);
  }

 private:
  static constexpr std::int64_t kMostUnread = 64;

  struct Step {
    Step(std::int64_t count, torch::optim::Optimizer& optimizer, const Recorder& record)
        : batches(static_cast<std::size_t>(count)), replayed(&optimizer, record) {}

    /// Of all ranks.
    std::int64_t images() const {
      std::int64_t images = 0;
      for (const auto& batch : batches) images += batch.whole;
      return images;
    }
    std::int64_t own_images() const {
      std::int64_t images = 0;
      for (const auto& batch : batches) images += batch.size();
      return images;
    }

    std::vector<StaticBatch> batches;  // each in its own memory: a graph holds the passes over all
    ReplayedStep replayed;
    MomentReadings moments;
  };

  struct TestPass {
    explicit TestPass(const Recorder& record) : replayed(record) {}
    StaticBatch batch;
    ReplayedWork replayed;
  };

  /// The last step of an epoch is of its own kind: it may have fewer batches and a smaller one, and it also measures
  /// activations. So is every set of layers that passes may have to observe.
  using Kind = std::tuple<std::int64_t, bool, std::vector<bool>>;

  /// Returns how long data were waited for.
  double prepare_batches(Step& step) {
    const auto waited_before = batches_.train->seconds_waited();
    auto number = next_batch_;
    for (auto& batch : step.batches) batches_.train->prepare(batch, number++);
    return batches_.train->seconds_waited() - waited_before;
  }

  void run_passes(Step& step, bool is_last) {
    std::optional<ActivationProbe> probe;
    if (is_last) probe.emplace(task_.model);
    task_.optimizer.zero_grad();
    const auto sums = accumulate_gradients(step);
    record_reading_cuda(sums.loss, sums.correct, clip_gradients_on_gpu(task_.model, clip_norm_),
                        readings_, next_reading_);
    if (probe) step.moments = probe->take_on_device();
  }

  /// Goes through all batches of a step. The gradients are those of the mean loss.
  PassSums accumulate_gradients(const Step& step) {
    std::optional<SharedBatchStatistics> statistics;
    if (task_.sync_batchnorm && !task_.ranks->is_alone()) statistics.emplace(task_.ranks);
    PassSums sums;
    for (const auto& batch : step.batches) {
      const bool is_last = &batch == &step.batches.back();
      std::optional<GradientExchange::Hold> until_last;
      if (!is_last) until_last.emplace(exchange_.hold());
      batches_.train->enqueue_next(batch);
      const bool has_pass = batch.size() > 0 || statistics;
      const BatchPart part(batch.begin, batch.whole);
      sums.add(has_pass ? training_pass(task_.model, batch.images, batch.targets, step.images(),
                                        task_.passes)
                        : no_pass(),
               batch.targets);
      if (is_last) exchange_.finish();
    }
    return sums;
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
  const std::int64_t accumulation_;
  const double clip_norm_;
  StepParts& parts_;
  const bool host_decides_;
  GradientExchange exchange_;
  const Sources batches_;
  torch::Tensor readings_;      // (steps, 3): loss, right answers, norm of the gradient
  torch::Tensor next_reading_;  // (1): the row that the next step writes
  const Recorder record_;
  torch::Tensor sums_;  // as evaluation_pass() gives them, over the test batches so far
  TestPass test_pass_;
  TestPass last_test_pass_;  // its batch may be smaller
  std::map<Kind, Step> steps_;
  const Step* last_of_epoch_ = nullptr;
  std::int64_t next_batch_ = 0;
  std::vector<StepReading> unread_;  // as far as the host knows them
};

}  // namespace

std::unique_ptr<StepEngine> make_graph_engine(const TrainingTask& task, std::int64_t accumulation,
                                              double clip_norm) {
  const std::lock_guard<std::mutex> lock(set_up_mutex());
  return std::make_unique<GraphEngine>(task, accumulation, clip_norm);
}

std::string obstacle_to_graph_engine(const torch::optim::Optimizer& optimizer) {
  const auto* parts = StepParts::of(optimizer);
  const bool can_be_captured = parts != nullptr && parts->host_work() != HostWork::Everything;
  return can_be_captured ? "" : "this optimizer's steps cannot be captured";
}

}  // namespace adaact
