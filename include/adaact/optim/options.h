#pragma once

#include <string>

#include <torch/optim/optimizer.h>

namespace adaact {

/// What the options of every optimizer of this library can do beside LibTorch's own interface.
template <typename Derived>
struct JsonOptions : public torch::optim::OptimizerCloneableOptions<Derived> {
  /// Throws an error that names the option, its value and what was expected.
  void validate() const;

  /// Every option under its name; infinity, which JSON lacks, is null.
  std::string to_json() const;
  /// Unknown names are an error that lists the known ones; absent ones keep their default.
  static Derived from_json(const std::string& text);
  /// What there is, as a JSON array: name, type, default and what is expected of each.
  static std::string describe();

  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override;
  void set_lr(const double lr) override;  // NOLINT(readability-avoid-const-params-in-decls)
};

template <typename Derived>
bool operator==(const JsonOptions<Derived>& left, const JsonOptions<Derived>& right) {
  return left.to_json() == right.to_json();
}

}  // namespace adaact
