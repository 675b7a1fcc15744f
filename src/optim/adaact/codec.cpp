#include "optim/adaact/codec.h"

#include <vector>

namespace adaact {
namespace {

// Entries of a parameter's state in a file.
constexpr char kStep[] = "step";
constexpr char kExpAvg[] = "exp_avg";
constexpr char kSegments[] = "segments";  // (S, 3): begin, end, observations
constexpr char kSecondMoment[] = "second_moment";
constexpr char kPreconditioner[] = "preconditioner";

torch::Tensor to_tensor(const std::vector<RowSegment>& segments) {
  auto tensor = torch::empty({static_cast<std::int64_t>(segments.size()), 3}, torch::kInt64);
  auto rows = tensor.accessor<std::int64_t, 2>();
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const auto row = static_cast<std::int64_t>(s);
    rows[row][0] = segments[s].begin;
    rows[row][1] = segments[s].end;
    rows[row][2] = segments[s].observations;
  }
  return tensor;
}

std::vector<RowSegment> to_segments(const torch::Tensor& tensor) {
  std::vector<RowSegment> segments;
  const auto rows = tensor.accessor<std::int64_t, 2>();
  for (std::int64_t s = 0; s < tensor.size(0); ++s) {
    segments.push_back({rows[s][0], rows[s][1], rows[s][2]});
  }
  return segments;
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
  if (!state.moments().segments.empty()) entries[kSegments] = to_tensor(state.moments().segments);
  return entries;
}

std::unique_ptr<StateCodec::State> AdaActCodec::state_from(const StateEntries& entries,
                                                           const NamedParameter& parameter,
                                                           const std::string& source) const {
  const auto expect = [&](bool holds, const char* entry) {
    if (holds) return;
    const auto found = entries.find(entry);
    if (found == entries.end()) throw_missing_entry(entry, parameter, source);
    throw_misfit(entry, found->second, parameter, source);
  };
  auto state = std::make_unique<AdaActParamState>();
  auto& moments = state->moments();
  for (const auto& [entry, tensor] : entries) {
    if (entry == kStep) {
      state->step(counter_from(tensor, kStep, parameter, source));
    } else if (entry == kExpAvg) {
      expect(tensor.sizes() == parameter.tensor.sizes(), kExpAvg);
      state->exp_avg(tensor.clone());
    } else if (entry == kSegments) {
      expect(tensor.scalar_type() == torch::kInt64 && tensor.dim() == 2 && tensor.size(1) == 3,
             kSegments);
      moments.segments = to_segments(tensor);
    } else if (entry == kSecondMoment) {
      moments.ema = tensor.clone();
    } else if (entry == kPreconditioner) {
      state->preconditioner(tensor.clone());
    } else {
      throw_unknown_entry(entry, parameter, source);
    }
  }

  const auto rows = parameter.tensor.dim() == 0 ? 1 : parameter.tensor.size(0);
  std::int64_t row = 0;
  for (const auto& segment : moments.segments) {
    expect(segment.begin >= row && segment.begin < segment.end && segment.end <= rows &&
               segment.observations > 0,
           kSegments);
    row = segment.end;
  }
  if (moments.ema.defined()) {
    expect(!moments.segments.empty() && rows > 0, kSegments);
    const auto features = parameter.tensor.numel() / rows;
    const auto width = moments.ema.size(-1);
    const bool diagonal = moments.ema.dim() == 2 && width == features;
    const bool full = moments.ema.dim() == 3 && moments.ema.size(1) == width &&
                      (width == features || width == features + 1) &&
                      state->preconditioner().defined();
    expect(moments.ema.is_floating_point() && (diagonal || full) &&
               moments.ema.size(0) == static_cast<std::int64_t>(moments.segments.size()),
           kSecondMoment);
  }
  if (state->preconditioner().defined()) {
    expect(moments.ema.defined() && moments.ema.dim() == 3 &&
               state->preconditioner().sizes() == moments.ema.sizes(),
           kPreconditioner);
  }
  return state;
}

}  // namespace adaact
