#include <optional>
#include <utility>

#include <adaact/ranks/gradient_exchange.h>
#include <adaact/train/evaluate.h>
#include <torch/torch.h>

#include "layers/batch_part.h"
#include "layers/shared_batch_statistics.h"
#include "train/probes/activation_probe.h"
#include "train/step/generator_state.h"
#include "train/step/gradients.h"
#include "train/step/rank_totals.h"
#include "train/step/step_engine.h"

namespace adaact {
namespace {

class EagerEngine : public StepEngine {
 public:
  EagerEngine(const TrainingTask& task, std::int64_t accumulation, double clip_norm)
      : task_(task),
        accumulation_(accumulation),
        clip_norm_(clip_norm),
        exchange_(task.model, task.ranks, shares_of_mean()) {}

  void start(std::int64_t epoch, std::int64_t first_batch) override {
    task_.train_data.start(epoch, first_batch);
    next_batch_ = first_batch;
  }

  std::int64_t most_unread() const override { return 1; }

  void take_step() override {
    reading_ = {};
    const auto waited_before = task_.train_data.seconds_waited();
    const auto batches = next_batches();
    reading_.wait_seconds = task_.train_data.seconds_waited() - waited_before;
    reading_.batches = static_cast<std::int64_t>(batches.size());
    std::int64_t own_images = 0;
    for (const auto& batch : batches) {
      reading_.images += batch.whole;
      own_images += batch.size();
    }
    next_batch_ += reading_.batches;

    std::optional<ActivationProbe> probe;
    if (next_batch_ == task_.train_data.batches_per_epoch()) probe.emplace(task_.model);
    bool first_pass = true;  // SAM makes a second one, elsewhere: not what the step was like
    task_.optimizer.step([&] {
      task_.optimizer.zero_grad();
      const auto sums = accumulate_gradients(batches);
      const auto norm = clip_gradients(task_.model, clip_norm_);
      if (std::exchange(first_pass, false)) {
        reading_.loss = sums.loss;
        reading_.correct = sums.correct;
        reading_.gradient_norm = norm;
        if (probe) {
          second_moments_ = of_all_ranks(probe->take(), own_images, task_.model, *task_.ranks);
        }
      }
      return torch::tensor(sums.loss, torch::kFloat64);
    });
  }

  StepReadings read() override { return {{reading_}, nullptr}; }
  SecondMoments second_moments() const override { return second_moments_; }

  std::optional<Evaluation> evaluate(const std::function<bool()>& should_stop) override {
    const auto& passes = task_.passes;
    // What a rank's own images have made of them, such as running averages, is not everybody's.
    task_.ranks->broadcast(task_.model.buffers(), /*root=*/0);
    const auto own = evaluate_unless(should_stop, task_.model, task_.test_data, passes.device,
                                     passes.bf16, passes.channels_last);
    if (!own) return std::nullopt;
    return of_all_ranks(*own, *task_.ranks);
  }

 private:
  std::vector<Batch> next_batches() {
    std::vector<Batch> batches;
    while (static_cast<std::int64_t>(batches.size()) < accumulation_) {
      auto batch = task_.train_data.next();
      if (!batch) break;
      batches.push_back(std::move(*batch));
    }
    return batches;
  }

  struct Sums {
    double loss = 0.0;
    std::int64_t correct = 0;
  };

  /// Goes through all batches of a step. The gradients are those of the mean loss.
  Sums accumulate_gradients(const std::vector<Batch>& batches) {
    std::optional<SharedBatchStatistics> statistics;
    if (task_.sync_batchnorm && !task_.ranks->is_alone()) statistics.emplace(task_.ranks);
    // These are where the model is, so that the host does not wait for a GPU after each batch.
    const auto totals =
        torch::zeros({2}, torch::dtype(torch::kFloat64).device(task_.passes.device));
    for (const auto& batch : batches) {
      const bool is_last = &batch == &batches.back();
      std::optional<GradientExchange::Hold> until_last;
      if (!is_last) until_last.emplace(exchange_.hold());
      if (batch.size() > 0 || statistics) {
        const BatchPart part(batch.begin, batch.whole);
        const auto targets = Targets::of(batch, task_.passes.device);
        const auto pass = training_pass(task_.model, prepared_images(batch, task_.passes), targets,
                                        reading_.images, task_.passes);
        totals.add_(torch::stack(
            {pass.loss.to(torch::kFloat64), pass.correct(targets).to(torch::kFloat64)}));
      }
      if (is_last) exchange_.finish();
      catch_up_with_generator(batch.whole, task_.train_data.options(), task_.passes.device,
                              *task_.ranks);
    }
    // The stream has waited for the sums of gradients, and a copy to the host would wait for ever with it where a rank is
    // gone.
    task_.ranks->wait_for_stream();
    const auto of_step = totals.cpu();
    task_.ranks->sum({of_step});
    const auto* sums = of_step.data_ptr<double>();
    return {sums[0], static_cast<std::int64_t>(sums[1])};
  }

  const TrainingTask task_;
  const std::int64_t accumulation_;
  const double clip_norm_;
  GradientExchange exchange_;
  std::int64_t next_batch_ = 0;
  StepReading reading_;
  SecondMoments second_moments_;
};

}  // namespace

std::unique_ptr<StepEngine> make_eager_engine(const TrainingTask& task, std::int64_t accumulation,
                                              double clip_norm) {
  return std::make_unique<EagerEngine>(task, accumulation, clip_norm);
}

}  // namespace adaact
