#include "optim/base/entry_reader.h"

#include <sstream>
#include <utility>

#include "kernels/all_finite.h"
#include "kernels/sum_dtype.h"

namespace adaact {
namespace {

/// How far a covariance may be from one by the rounding of sums of products, to its largest element.
constexpr double kMostRounding = 1e-3;

template <typename... Parts>
std::string text_of(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// "Long of shape [2, 3]"
std::string kind_of(const torch::Tensor& value) {
  return text_of(value.scalar_type(), " of shape ", value.sizes());
}

/// "-1 at [0, 2]": the first value where a mask of the same shape says so.
std::string first_of(const torch::Tensor& value, const torch::Tensor& mask) {
  const auto place = mask.nonzero()[0].cpu();  // (dimensions)
  auto element = value;
  std::vector<std::int64_t> index;
  for (std::int64_t d = 0; d < place.numel(); ++d) {
    index.push_back(place[d].item<std::int64_t>());
    element = element[index.back()];
  }
  return text_of(element.item<double>(), " at ", at::IntArrayRef(index));
}

std::string count_expected(std::int64_t lowest) {
  return text_of("an integer from ", lowest, " to ", kMostCounted);
}

bool is_count(std::int64_t count, std::int64_t lowest) {
  return count >= lowest && count <= kMostCounted;
}

}  // namespace

torch::Tensor runs_to_tensor(const std::vector<RowSegment>& runs) {
  auto tensor = torch::empty({static_cast<std::int64_t>(runs.size()), 3}, torch::kInt64);
  auto rows = tensor.accessor<std::int64_t, 2>();
  for (std::size_t s = 0; s < runs.size(); ++s) {
    const auto row = static_cast<std::int64_t>(s);
    rows[row][0] = runs[s].begin;
    rows[row][1] = runs[s].end;
    rows[row][2] = runs[s].observations;
  }
  return tensor;
}

std::int64_t EntryReader::count(const std::string& entry) {
  const auto value = take(entry);
  if (!value.defined()) throw_missing(entry);
  if (value.scalar_type() != torch::kInt64 || value.numel() != 1) {
    throw_misfit(entry, kind_of(value), count_expected(0));
  }
  const auto count = value.item<std::int64_t>();
  if (!is_count(count, 0)) throw_misfit(entry, text_of(count), count_expected(0));
  return count;
}

torch::Tensor EntryReader::tensor(const std::string& entry, const EntryRule& rule) {
  return tensor(entry, parameter_.tensor.sizes(), rule);
}

torch::Tensor EntryReader::tensor(const std::string& entry, at::IntArrayRef shape,
                                  const EntryRule& rule) {
  const auto value = take(entry);
  if (!value.defined()) {
    if (rule.may_be_absent) return {};
    throw_missing(entry);
  }
  if (!value.is_floating_point() || value.sizes() != shape) {
    throw_misfit(entry, kind_of(value), text_of("floating-point numbers of shape ", shape));
  }
  check_values(entry, value, rule.values);
  return value.to(parameter_.tensor.device(), /*non_blocking=*/false, /*copy=*/true);
}

std::vector<RowSegment> EntryReader::runs(const std::string& entry, std::int64_t rows) {
  const auto value = take(entry);
  if (!value.defined()) return {};
  if (value.scalar_type() != torch::kInt64 || value.dim() != 2 || value.size(0) == 0 ||
      value.size(1) != 3) {
    throw_misfit(entry, kind_of(value), "integers of shape (runs, 3): begin, end, count");
  }
  const auto here = value.cpu();
  const auto numbers = here.accessor<std::int64_t, 2>();
  std::vector<RowSegment> runs;
  std::int64_t from = 0;
  for (std::int64_t s = 0; s < here.size(0); ++s) {
    const RowSegment run{numbers[s][0], numbers[s][1], numbers[s][2]};
    if (run.begin < from || run.begin >= run.end || run.end > rows) {
      throw_misfit(entry, text_of("rows ", run.begin, " to ", run.end, " in run ", s),
                   text_of("runs in order, within rows ", from, " to ", rows));
    }
    if (!is_count(run.observations, 1)) {
      throw_misfit(entry, text_of("a count of ", run.observations, " in run ", s),
                   count_expected(1));
    }
    from = run.end;
    runs.push_back(run);
  }
  return runs;
}

void EntryReader::finish() const {
  if (entries_.empty()) return;
  TORCH_CHECK(false, "adaact: ", source_, ": '", parameter_.name, "' has an unknown entry '",
              entries_.begin()->first, "'");
}

std::vector<std::int64_t> EntryReader::shape(const std::string& entry) const {
  return entries_.at(entry).sizes().vec();
}

void EntryReader::throw_missing(const std::string& entry) const {
  TORCH_CHECK(false, "adaact: ", source_, ": '", parameter_.name, "' lacks the entry '", entry,
              "'");
}

void EntryReader::throw_misfit(const std::string& entry, const std::string& is,
                               const std::string& expected) const {
  TORCH_CHECK(false, "adaact: ", source_, ": entry '", entry, "' of '", parameter_.name, "' is ",
              is, ", expected ", expected);
}

torch::Tensor EntryReader::take(const std::string& entry) {
  const auto found = entries_.find(entry);
  if (found == entries_.end()) return {};
  auto value = found->second.detach();
  entries_.erase(found);
  return value;
}

void EntryReader::check_values(const std::string& entry, const torch::Tensor& value,
                               EntryRule::Values values) const {
  if (value.numel() == 0) return;
  // A number of float64 may be too large for the type that a step computes in.
  const auto as_used = value.to(sum_dtype(parameter_.tensor));
  if (!all_finite(as_used)) {
    throw_misfit(entry, first_of(value, torch::isfinite(as_used).logical_not()),
                 text_of("finite numbers in ", as_used.scalar_type()));
  }
  if (values == EntryRule::Values::NotNegative && value.lt(0).any().item<bool>()) {
    throw_misfit(entry, first_of(value, value.lt(0)), "numbers ≥ 0");
  }
  if (values != EntryRule::Values::Covariance) return;
  const auto matrix = value.to(torch::kFloat64);
  const auto rounding = matrix.abs().max() * kMostRounding;
  const auto diagonal = matrix.diagonal(0, -2, -1);
  const auto negative = diagonal < -rounding;
  if (negative.any().item<bool>()) {
    throw_misfit(entry, first_of(diagonal, negative) + " of its diagonal", "numbers ≥ 0");
  }
  const auto unequal = (matrix - matrix.transpose(-2, -1)).abs() > rounding;
  if (unequal.any().item<bool>()) {
    throw_misfit(entry, first_of(matrix, unequal) + " and another number across the diagonal",
                 "a symmetric matrix");
  }
}

}  // namespace adaact
