#include "optim/adaact/codec.h"

#include <utility>
#include <vector>

namespace adaact {
namespace {

// Entries of a parameter's state in a file.
constexpr char kStep[] = "step";
constexpr char kExpAvg[] = "exp_avg";
constexpr char kSegments[] = "segments";  // (S, 3): begin, end, observations
constexpr char kSecondMoment[] = "second_moment";
constexpr char kPreconditioner[] = "preconditioner";

/// V (S, n) or A (S, n', n'), n' = n + 1 with a bias, of S segments of a weight.
void read_moments(EntryReader& entries, AdaActParamState& state) {
  const auto& weight = entries.parameter().tensor;
  const auto rows = weight.dim() == 0 ? 1 : weight.size(0);
  auto& moments = state.moments();
  moments.segments = entries.runs(kSegments, rows);
  if (moments.segments.empty()) entries.throw_missing(kSegments);
  const auto count = static_cast<std::int64_t>(moments.segments.size());
  const auto features = weight.numel() / rows;
  const auto saved = entries.shape(kSecondMoment);
  if (saved.size() != 3) {
    moments.ema = entries.tensor(kSecondMoment, {count, features}, second_moments());
    return;
  }
  const auto width = saved[2] == features + 1 ? features + 1 : features;
  moments.ema = entries.tensor(kSecondMoment, {count, width, width}, covariances());
  // The preconditioner is that of the whole matrix, or of the weight's part where the bias is not updated with it.
  if (!entries.has(kPreconditioner)) entries.throw_missing(kPreconditioner);
  const auto shape = entries.shape(kPreconditioner);
  const auto scaled = !shape.empty() && shape.back() == width ? width : features;
  state.preconditioner(entries.tensor(kPreconditioner, {count, scaled, scaled}, any_values()));
}

/// A bias has no moments, its input being 1; its one segment is all of it.
void read_observations(EntryReader& entries, AdaActParamState& state) {
  const auto numbers = entries.parameter().tensor.numel();
  if (entries.has(kPreconditioner)) entries.throw_missing(kSecondMoment);
  auto segments = entries.runs(kSegments, numbers);
  const bool is_bias = segments.size() == 1 && segments[0].begin == 0 && segments[0].end == numbers;
  if (!segments.empty() && !is_bias) entries.throw_missing(kSecondMoment);
  state.moments().segments = std::move(segments);
}

}  // namespace

AdaActOptions::AdaActOptions(double lr) : lr_(lr) {}

template struct JsonOptions<AdaActOptions>;

StateEntries AdaActCodec::to_entries(const State& base) const {
  const auto& state = static_cast<const AdaActParamState&>(base);
  StateEntries entries;
  const auto keep = [&entries](const char* entry, const torch::Tensor& tensor) {
    if (tensor.defined()) entries[entry] = tensor.detach().clone();
  };
  entries[kStep] = torch::tensor(state.step(), torch::kInt64);
  keep(kExpAvg, state.exp_avg());
  keep(kSecondMoment, state.moments().ema);
  keep(kPreconditioner, state.preconditioner());
  const auto& segments = state.moments().segments;
  if (!segments.empty()) entries[kSegments] = runs_to_tensor(segments);
  return entries;
}

std::unique_ptr<StateCodec::State> AdaActCodec::state_from(EntryReader& entries,
                                                           const Options& /*options*/) const {
  auto state = std::make_unique<AdaActParamState>();
  state->step(entries.count(kStep));
  // A weight without a gradient may have V and no M yet.
  state->exp_avg(entries.tensor(kExpAvg, EntryRule{EntryRule::Values::Any, state->step() == 0}));
  entries.has(kSecondMoment) ? read_moments(entries, *state) : read_observations(entries, *state);
  return state;
}

}  // namespace adaact
