#include "optim/adaact/row_moments.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>

namespace adaact {
namespace {

/// Rows [begin, end) and the sum and count observed for them.
struct RowSum {
  std::int64_t begin;
  std::int64_t end;
  torch::Tensor sum;
  std::int64_t count;
};

std::vector<RowSum> split_groups(const PendingMoment& pending) {
  const auto groups = pending.moment.sum.size(0);
  const auto rows = (pending.row_end - pending.row_begin) / groups;
  std::vector<RowSum> sums;
  for (std::int64_t g = 0; g < groups; ++g) {
    const auto begin = pending.row_begin + g * rows;
    sums.push_back({begin, begin + rows, pending.moment.sum[g], pending.moment.count});
  }
  return sums;
}

template <typename Rows>
bool covers(const Rows& rows, const RowSegment& part) {
  return rows.begin <= part.begin && part.end <= rows.end;
}

torch::Tensor clipped(const torch::Tensor& mean, double low, double high) {
  return low > 0.0 || high < std::numeric_limits<double>::infinity() ? mean.clamp(low, high) : mean;
}

}  // namespace

void update_row_moments(RowMoments& moments, const std::vector<const PendingMoment*>& observed,
                        double beta2, double clip_low, double clip_high) {
  auto& segments = moments.segments;
  auto& ema = moments.ema;
  std::vector<RowSum> sums;
  for (const auto* pending : observed) {
    for (auto& sum : split_groups(*pending)) sums.push_back(std::move(sum));
  }

  const auto same_rows = [](const auto& left, const auto& right) {
    return left.begin == right.begin && left.end == right.end;
  };
  const bool as_before = observed.size() == 1 && std::equal(segments.begin(), segments.end(),
                                                            sums.begin(), sums.end(), same_rows);
  if (as_before) {  // every step of an ordinary layer but its first
    const auto mean = clipped(observed[0]->moment.mean(), clip_low, clip_high);  // Ã_t
    ema.mul_(beta2).add_(mean, 1.0 - beta2);                                     // V_t
    for (auto& segment : segments) ++segment.observations;
    return;
  }

  std::set<std::int64_t> cuts;
  for (const auto& sum : sums) cuts.insert({sum.begin, sum.end});
  for (const auto& segment : segments) cuts.insert({segment.begin, segment.end});

  std::vector<RowSegment> parts;
  std::vector<torch::Tensor> averages;
  for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
    RowSegment part{*cut, *std::next(cut), 0};
    torch::Tensor average;
    for (std::size_t s = 0; s < segments.size(); ++s) {
      if (!covers(segments[s], part)) continue;
      part.observations = segments[s].observations;
      average = ema[static_cast<std::int64_t>(s)].clone();
    }
    Moment seen;
    for (const auto& sum : sums) {
      if (!covers(sum, part)) continue;
      seen.sum = seen.sum.defined() ? seen.sum + sum.sum : sum.sum;
      seen.count += sum.count;
    }
    if (seen.sum.defined()) {
      const auto mean = clipped(seen.mean(), clip_low, clip_high);  // Ã_t
      average = (average.defined() ? average * beta2 : torch::zeros_like(mean))
                    .add(mean, 1.0 - beta2);  // V_t
      ++part.observations;
    }
    if (!average.defined()) continue;
    parts.push_back(part);
    averages.push_back(average);
  }
  segments = std::move(parts);
  ema = torch::stack(averages);
}

torch::Tensor unbiased(const RowMoments& moments, double beta2) {
  const auto& segments = moments.segments;
  const auto& ema = moments.ema;
  const auto correction = [beta2](const RowSegment& segment) {
    return 1.0 - std::pow(beta2, static_cast<double>(segment.observations));
  };
  const bool all_equal =
      std::all_of(segments.begin(), segments.end(), [&](const RowSegment& segment) {
        return segment.observations == segments.front().observations;
      });
  if (all_equal) return ema / correction(segments.front());
  auto v_hat = ema.clone();
  for (std::size_t s = 0; s < segments.size(); ++s) {
    v_hat[static_cast<std::int64_t>(s)].div_(correction(segments[s]));
  }
  return v_hat;
}

}  // namespace adaact
