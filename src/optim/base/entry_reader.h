#pragma once

// The entries of one parameter's state as a file has them, checked before anybody relies on them: a file
// may be whole and still be nonsense.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <adaact/observe/layer_map.h>
#include <adaact/optim/row_moments.h>
#include <torch/types.h>

namespace adaact {

/// What is kept for one parameter, by entry: "exp_avg", "step".
using StateEntries = std::map<std::string, torch::Tensor>;

/// The most that a count may be: doubles still know every number up to it, and no sum of two overflows.
inline constexpr std::int64_t kMostCounted = std::int64_t{1} << 53;

/// What a tensor of a state must be, beyond finite.
struct EntryRule {
  enum class Values : std::uint8_t {
    Any,
    NotNegative,
    Covariance,  // (…, n, n): symmetric, nothing negative on the diagonal; but for rounding
  };
  Values values = Values::Any;
  bool may_be_absent = false;

  EntryRule or_absent() const { return {values, true}; }
};
inline EntryRule any_values() { return {}; }
inline EntryRule second_moments() { return {EntryRule::Values::NotNegative}; }
inline EntryRule covariances() { return {EntryRule::Values::Covariance}; }

/// Runs of rows with their counts as an entry (S, 3): begin, end, count.
torch::Tensor runs_to_tensor(const std::vector<RowSegment>& runs);

/// Hands out the entries of a parameter's state one by one. Every error names the file, the parameter, the
/// entry, what it is and what was expected. Refers to parameter and source.
class EntryReader {
 public:
  EntryReader(StateEntries entries, const NamedParameter& parameter, const std::string& source)
      : entries_(std::move(entries)), parameter_(parameter), source_(source) {}

  /// How often something was done: 0 to kMostCounted.
  std::int64_t count(const std::string& entry);
  /// A copy on the parameter's device, of the parameter's shape or of another; undefined where it may be
  /// absent and is.
  torch::Tensor tensor(const std::string& entry, const EntryRule& rule = any_values());
  torch::Tensor tensor(const std::string& entry, at::IntArrayRef shape, const EntryRule& rule);
  /// What runs_to_tensor() made of runs within so many rows: ordered, disjoint, counted at least once.
  /// Empty where it is absent.
  std::vector<RowSegment> runs(const std::string& entry, std::int64_t rows);
  /// Throws where there is an entry that nobody asked for.
  void finish() const;

  const NamedParameter& parameter() const noexcept { return parameter_; }
  bool has(const std::string& entry) const { return entries_.count(entry) != 0; }
  /// The shape of an entry that is there.
  std::vector<std::int64_t> shape(const std::string& entry) const;

  [[noreturn]] void throw_missing(const std::string& entry) const;
  /// "…: entry 'step' of 'fc.weight' is -1, expected …"
  [[noreturn]] void throw_misfit(const std::string& entry, const std::string& is,
                                 const std::string& expected) const;

 private:
  torch::Tensor take(const std::string& entry);
  void check_values(const std::string& entry, const torch::Tensor& value,
                    EntryRule::Values values) const;

  StateEntries entries_;  // what has been read is taken out
  const NamedParameter& parameter_;
  const std::string& source_;
};

}  // namespace adaact
