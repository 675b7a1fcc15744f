#include "optim/adaact/row_averages.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "optim/base/parameter_update.h"

namespace adaact {
namespace {

/// Rows [begin, end) and the sum and count observed for them.
struct RowSum {
  std::int64_t begin;
  std::int64_t end;
  torch::Tensor sum;
  std::int64_t count;
};

std::vector<RowSum> split_groups(const std::vector<const PendingMoment*>& observed) {
  std::vector<RowSum> sums;
  for (const auto* pending : observed) {
    const auto groups = pending->moment.sum.size(0);
    const auto rows = (pending->row_end - pending->row_begin) / groups;
    for (std::int64_t g = 0; g < groups; ++g) {
      const auto begin = pending->row_begin + g * rows;
      sums.push_back({begin, begin + rows, pending->moment.sum[g], pending->moment.count});
    }
  }
  return sums;
}

template <typename Rows>
bool covers(const Rows& rows, const RowSegment& part) {
  return rows.begin <= part.begin && part.end <= rows.end;
}

/// Which segments were observed in this step, and the mean of each.
struct SeenSegments {
  std::vector<std::int64_t> segments;
  torch::Tensor mean;  // (segments, …)
};

/// Cuts segments where any run of rows begins or ends; a new one starts with V = 0.
SeenSegments cut_segments(RowMoments& moments, const std::vector<RowSum>& sums) {
  std::set<std::int64_t> cuts;
  for (const auto& sum : sums) cuts.insert({sum.begin, sum.end});
  for (const auto& segment : moments.segments) cuts.insert({segment.begin, segment.end});

  SeenSegments seen;
  std::vector<torch::Tensor> means;
  std::vector<RowSegment> parts;
  std::vector<torch::Tensor> averages;
  for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
    RowSegment part{*cut, *std::next(cut), 0};
    torch::Tensor average;
    for (std::size_t s = 0; s < moments.segments.size(); ++s) {
      if (!covers(moments.segments[s], part)) continue;
      part.observations = moments.segments[s].observations;
      average = moments.ema[static_cast<std::int64_t>(s)];
    }
    Moment moment;
    for (const auto& sum : sums) {
      if (!covers(sum, part)) continue;
      moment.sum = moment.sum.defined() ? moment.sum + sum.sum : sum.sum;
      moment.count += sum.count;
    }
    if (moment.sum.defined()) {
      seen.segments.push_back(static_cast<std::int64_t>(parts.size()));
      means.push_back(moment.mean());
      if (!average.defined()) average = torch::zeros_like(means.back());
    }
    if (!average.defined()) continue;
    parts.push_back(part);
    averages.push_back(average);
  }
  moments.segments = std::move(parts);
  moments.ema = torch::stack(averages);
  seen.mean = torch::stack(means);
  return seen;
}

SeenSegments see_segments(RowMoments& moments, const std::vector<const PendingMoment*>& observed) {
  const auto sums = split_groups(observed);
  const auto same_rows = [](const RowSegment& segment, const RowSum& sum) {
    return segment.begin == sum.begin && segment.end == sum.end;
  };
  const bool as_before =
      observed.size() == 1 && std::equal(moments.segments.begin(), moments.segments.end(),
                                         sums.begin(), sums.end(), same_rows);
  if (!as_before) return cut_segments(moments, sums);
  SeenSegments seen;  // every step of an ordinary layer but its first
  for (std::size_t s = 0; s < sums.size(); ++s) {
    seen.segments.push_back(static_cast<std::int64_t>(s));
  }
  seen.mean = observed[0]->moment.mean();
  return seen;
}

torch::Tensor clipped(const torch::Tensor& mean, double low, double high) {
  return low > 0.0 || high < std::numeric_limits<double>::infinity() ? mean.clamp(low, high) : mean;
}

}  // namespace

void update_row_moments(RowMoments& moments, const std::vector<const PendingMoment*>& observed,
                        double beta2, double clip_low, double clip_high) {
  auto& ema = moments.ema;
  if (ema.defined()) ema = ema.to(observed[0]->moment.sum.options());
  const auto seen = see_segments(moments, observed);
  const auto mean = clipped(seen.mean, clip_low, clip_high);  // Ã_t
  const bool all = seen.segments.size() == moments.segments.size();
  const auto rows = all ? torch::Tensor() : torch::tensor(seen.segments).to(ema.device());
  const auto v = all ? ema : ema.index_select(0, rows);
  v.mul_(beta2).add_(mean, 1.0 - beta2);  // V_t
  if (!all) ema.index_copy_(0, rows, v);
  for (const auto segment : seen.segments) {
    ++moments.segments[static_cast<std::size_t>(segment)].observations;
  }
}

torch::Tensor unbiased(const RowMoments& moments, double beta2) {
  const auto& segments = moments.segments;
  const auto& ema = moments.ema;
  const auto correction = [beta2](const RowSegment& segment) {
    return bias_correction(beta2, segment.observations);
  };
  const bool all_equal =
      std::all_of(segments.begin(), segments.end(), [&](const RowSegment& segment) {
        return segment.observations == segments.front().observations;
      });
  if (all_equal) return ema / correction(segments.front());  // V̂_t
  auto v_hat = ema.clone();
  for (std::size_t s = 0; s < segments.size(); ++s) {
    v_hat[static_cast<std::int64_t>(s)].div_(correction(segments[s]));
  }
  return v_hat;
}

bool cover_all_rows_evenly(const std::vector<RowSegment>& segments, std::int64_t rows) {
  const auto& first = segments.front();
  std::int64_t expected = 0;
  for (const auto& segment : segments) {
    if (segment.begin != expected || segment.end - segment.begin != first.end - first.begin ||
        segment.observations != first.observations) {
      return false;
    }
    expected = segment.end;
  }
  return expected == rows;
}

}  // namespace adaact
