#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include <adaact/io/safetensors.h>
#include <torch/types.h>

namespace adaact {

/// Everything an optimizer must keep to go on exactly where it was, under the names of its
/// parameters: it survives a new process, another version of LibTorch and a reordered model.
struct OptimizerState {
  struct Group {
    std::vector<std::string> parameters;
    std::string options;  // JSON
  };

  std::string optimizer;                                    // "AdaAct"
  std::map<std::string, std::vector<std::int64_t>> shapes;  // parameter → shape
  std::vector<Group> groups;
  std::map<std::string, std::map<std::string, torch::Tensor>> entries;  // parameter → entry → value
  std::map<std::string, std::int64_t> counters;

  TensorFile to_file() const;
  static OptimizerState from_file(const TensorFile& file, const std::string& source);

  /// Throws an error that lists every difference in optimizer, names, shapes or grouping.
  void check_that_it_fits(const OptimizerState& saved, const std::string& source) const;
};

class NamedState;

/// An optimizer whose state has names.
class HasNamedState {
 public:
  virtual ~HasNamedState() = default;

  NamedState named_state();

  virtual OptimizerState export_state() const = 0;
  /// Takes over a state that fits, or throws and keeps its own.
  virtual void import_state(const OptimizerState& state, const std::string& source) = 0;
};

/// Saves and loads an optimizer's state. Refers to the optimizer and must not outlive it. Loading
/// restores the options of every group as well, the learning rate among them: a resumed run goes on
/// with what it had.
class NamedState {
 public:
  explicit NamedState(HasNamedState& owner) : owner_(owner) {}

  void save(const std::filesystem::path& path) const;
  void save(std::ostream& out) const;
  void load(const std::filesystem::path& path);
  void load(std::istream& in);  // reads the stream to its end

 private:
  HasNamedState& owner_;
};

inline NamedState HasNamedState::named_state() { return NamedState(*this); }

}  // namespace adaact
