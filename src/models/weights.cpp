#include <adaact/models/weights.h>
#include <algorithm>

#include <set>
#include <sstream>

#include <adaact/io/safetensors.h>
#include <torch/utils.h>

#include "models/checkpoint_format.h"

namespace adaact {
namespace {

constexpr char kBatchCounter[] = "num_batches_tracked";

bool is_batch_counter(const std::string& name) {
  const std::string suffix(kBatchCounter);
  return name.size() >= suffix.size() &&
         name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
}

void append_state(const torch::nn::Module& module, const std::string& prefix, NamedTensors& all) {
  for (const auto& parameter : module.named_parameters(/*recurse=*/false)) {
    all.emplace_back(prefix + parameter.key(), parameter.value());
  }
  for (const auto& buffer : module.named_buffers(/*recurse=*/false)) {
    all.emplace_back(prefix + buffer.key(), buffer.value());
  }
  for (const auto& child : module.named_children()) {
    append_state(*child.value(), prefix + child.key() + ".", all);
  }
}

/// Compares a file with a model, tensor by tensor, before anything is changed.
class WeightComparison {
 public:
  WeightComparison(const Model& model, const TensorFile& file)
      : head_prefix_(model.head_name() + "."), state_(state_tensors(model)) {
    for (const auto& [name, tensor] : state_) compare(name, tensor, file);
    for (const auto& [name, tensor] : file.tensors) {
      if (known_.count(name) == 0) unexpected_.push_back(name);
    }
  }

  /// Whether all that is wrong is a head for another number of classes.
  bool only_head_differs() const {
    return missing_.empty() && unexpected_.empty() && misshapen_.empty() && wrong_dtype_.empty() &&
           !other_heads_.empty() && head_rows_.size() == 1;
  }

  bool fits() const { return problems().empty(); }

  std::string problems() const {
    std::string text = list("missing", missing_) + list("unexpected", unexpected_) +
                       list("misshapen", misshapen_) + list("misshapen head", other_heads_) +
                       list("of no floating-point dtype", wrong_dtype_);
    if (only_head_differs()) {
      text +=
          "\n  the rest fits: these weights are for another number of classes; `adaact train "
          "--weights` (in C++ LoadOptions::replace_head) begins with them and a head of its own";
    }
    return text;
  }

  /// The model's tensors that the file has, with their values there.
  std::vector<std::pair<torch::Tensor, torch::Tensor>> pairs(const TensorFile& file,
                                                             bool with_head) const {
    std::vector<std::pair<torch::Tensor, torch::Tensor>> all;
    for (const auto& [name, tensor] : state_) {
      const auto found = file.tensors.find(name);
      const bool wanted = with_head || !is_head(name);
      if (wanted && found != file.tensors.end()) all.emplace_back(tensor, found->second);
    }
    return all;
  }

  std::vector<std::string> head_names() const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : state_) {
      if (is_head(name)) names.push_back(name);
    }
    return names;
  }

 private:
  bool is_head(const std::string& name) const { return name.rfind(head_prefix_, 0) == 0; }

  void compare(const std::string& name, const torch::Tensor& expected, const TensorFile& file) {
    known_.insert(name);
    const auto found = file.tensors.find(name);
    if (found == file.tensors.end()) {
      if (!is_batch_counter(name)) missing_.push_back(name);
      return;
    }
    const auto& actual = found->second;
    if (!is_batch_counter(name) && !actual.is_floating_point()) {
      std::ostringstream text;
      text << name << " is " << actual.scalar_type();
      wrong_dtype_.push_back(text.str());
    }
    if (is_head(name) && actual.dim() > 0) head_rows_.insert(actual.size(0));
    if (actual.sizes() == expected.sizes()) return;
    std::ostringstream text;
    text << name << " is " << actual.sizes() << ", expected " << expected.sizes();
    const bool other_rows = actual.dim() == expected.dim() && actual.dim() > 0 &&
                            actual.sizes().slice(1) == expected.sizes().slice(1);
    (is_head(name) && other_rows ? other_heads_ : misshapen_).push_back(text.str());
  }

  static std::string list(const std::string& title, const std::vector<std::string>& entries) {
    constexpr std::size_t kShown = 5;
    std::string text;
    for (std::size_t i = 0; i < std::min(kShown, entries.size()); ++i) {
      text += (text.empty() ? "" : "; ") + entries[i];
    }
    if (entries.size() > kShown) {
      text += " and " + std::to_string(entries.size() - kShown) + " more";
    }
    return text.empty() ? "" : "\n  " + title + ": " + text;
  }

  std::string head_prefix_;
  NamedTensors state_;
  std::set<std::string> known_;
  std::set<int64_t> head_rows_;  // one number where the head in the file is whole
  std::vector<std::string> missing_, unexpected_, misshapen_, other_heads_, wrong_dtype_;
};

/// Entries whose names begin so, without that beginning.
template <typename Entries>
Entries entries_below(const std::string& prefix, const Entries& entries) {
  Entries below;
  for (const auto& [name, value] : entries) {
    if (name.rfind(prefix, 0) == 0) below[name.substr(prefix.size())] = value;
  }
  return below;
}

/// The weights in a file that may be a checkpoint.
TensorFile weights_in(TensorFile file) {
  const auto format = file.metadata.find("format");
  if (format == file.metadata.end() || format->second != kCheckpointFormat) return file;
  TensorFile weights;
  weights.tensors = entries_below(kModelInCheckpoint, file.tensors);
  weights.metadata = entries_below(kModelInCheckpoint, file.metadata);
  return weights;
}

}  // namespace

NamedTensors state_tensors(const torch::nn::Module& module) {
  NamedTensors all;
  append_state(module, "", all);
  return all;
}

void save_weights(const torch::nn::Module& model, const std::filesystem::path& path,
                  const std::map<std::string, std::string>& metadata) {
  TensorFile file;
  file.metadata = metadata;
  for (const auto& [name, tensor] : state_tensors(model)) {
    // Module::to(dtype) converts the counter too, unlike Python's.
    file.tensors[name] = is_batch_counter(name) ? tensor.to(torch::kInt64) : tensor;
  }
  file.write(path);
}

TensorFile read_weights(const std::filesystem::path& path) {
  return weights_in(TensorFile::read(path));
}

LoadReport load_weights(Model& model, const std::filesystem::path& path,
                        const LoadOptions& options) {
  return load_weights(model, TensorFile::read(path), path.string(), options);
}

LoadReport load_weights(Model& model, TensorFile file, const std::string& source,
                        const LoadOptions& options) {
  file = weights_in(std::move(file));
  const WeightComparison comparison(model, file);
  const bool replace = options.replace_head && comparison.only_head_differs();
  TORCH_CHECK(replace || comparison.fits(), "adaact: ", source,
              " does not fit the model:", comparison.problems());
  const torch::NoGradGuard no_grad;
  for (const auto& [tensor, value] : comparison.pairs(file, /*with_head=*/!replace)) {
    auto destination = tensor;
    destination.copy_(value);
  }
  LoadReport report;
  if (replace) report.replaced = comparison.head_names();
  report.metadata = std::move(file.metadata);
  return report;
}

}  // namespace adaact
