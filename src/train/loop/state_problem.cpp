#include "train/loop/state_problem.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>

#include "kernels/ceil_div.h"

namespace adaact {
namespace {

template <typename Value, typename... Expected>
std::string unless(bool fits, const char* field, Value value, const Expected&... expected) {
  if (fits) return {};
  std::ostringstream text;
  text << "'" << field << "' is " << value << ", expected ";
  (text << ... << expected);
  return text.str();
}

std::string unless_within(const char* field, std::int64_t value, std::int64_t most,
                          const char* which) {
  return unless(value >= 0 && value <= most, field, value, "0 to ", most, ", ", which);
}

std::string unless_exactly(const char* field, std::int64_t value, std::int64_t expected,
                           const TrainerState& state) {
  return unless(value == expected, field, value, expected, " after ", state.batch,
                " batches of epoch ", state.epoch);
}

std::string unless_seconds(const char* field, double value) {
  return unless(std::isfinite(value) && value >= 0.0, field, value, "a number ≥ 0");
}

}  // namespace

std::string problem_with_state(const TrainerState& state, const TrainingExtent& extent) {
  const auto most_batches = state.epoch == extent.epochs ? 0 : extent.batches;
  for (const auto& problem :
       {unless_within("epoch", state.epoch, extent.epochs, "the epochs of the run"),
        unless_within("batch", state.batch, most_batches, "the batches that this epoch has")}) {
    if (!problem.empty()) return problem;
  }
  // What follows computes with epoch and batch, so a wrong one must be found before.
  const auto steps_per_epoch = ceil_div(extent.batches, extent.accumulation);
  const auto steps = state.epoch * steps_per_epoch + ceil_div(state.batch, extent.accumulation);
  const auto images = std::min(state.batch * extent.batch_size, extent.images);
  const auto totals = static_cast<std::int64_t>(state.activation_totals.size());
  const bool between_steps =
      state.batch == extent.batches || state.batch % extent.accumulation == 0;
  for (const auto& problem :
       {unless(between_steps, "batch", state.batch, "a multiple of ", extent.accumulation,
               ", the batches of a step"),
        unless_exactly("step", state.step, steps, state),
        unless_exactly("images", state.images, images, state),
        unless_within("correct", state.correct, state.images, "the images so far"),
        unless_seconds("seconds", state.seconds),
        unless_seconds("epoch_seconds", state.epoch_seconds),
        unless(totals == 0 || totals == extent.activation_totals, "activation_totals",
               std::to_string(totals) + " numbers", "none or ", extent.activation_totals,
               ", a row for each layer")}) {
    if (!problem.empty()) return problem;
  }
  return {};
}

}  // namespace adaact
