#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <adaact/observe/layer_map.h>
#include <adaact/optim/named_state.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

namespace adaact {

/// Which parameters weight decay applies to.
enum class DecayRule : std::uint8_t {
  Everything,
  NoVectors,  // no_decay_groups(): biases, normalisation and tokens are exempt
};

/// An optimizer by name: adaact, adam, adamw, adan, foof, kfac, lamb, sam, sgd.
///
///   auto optimizer = adaact::make_optimizer("kfac", *model, R"({"lr": 0.05, "damping": 0.01})");
///
/// Options are a JSON object; those absent have the defaults of default_options(). "sam" takes the
/// name of its base optimizer in "base" and hands on to it all options that are not its own. Unknown
/// names, unknown options and values out of range are errors that say what there is.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string& name,
                                                        torch::nn::Module& module,
                                                        const std::string& options = "{}",
                                                        DecayRule decay = DecayRule::Everything);

/// Parameters with options of their own; those absent are the optimizer's.
struct OptionGroup {
  std::vector<torch::Tensor> parameters;
  std::string options = "{}";  // JSON
};

/// The same for a model that need not be a torch::nn::Module. No groups stand for one of all parameters; `buffers` are
/// what a forward pass may change, for "sam".
std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string& name,
                                                        const LayerMap& model,
                                                        const std::vector<OptionGroup>& groups,
                                                        const std::string& options = "{}",
                                                        std::vector<torch::Tensor> buffers = {});

std::vector<std::string> optimizer_names();

/// Every option of an optimizer with its default, as JSON. For "sam" over a given base.
std::string default_options(const std::string& name, const std::string& sam_base = "sgd");

/// What options there are, as a JSON array of objects with "name", "type" (number, numbers, integer, boolean or
/// choice), "default", "expected" and, of a choice, "choices".
std::string describe_options(const std::string& name, const std::string& sam_base = "sgd");

/// The options of a parameter group of an optimizer made here, as JSON.
std::string group_options(const torch::optim::Optimizer& optimizer, std::size_t group);
/// One more group of an optimizer made here.
void add_option_group(torch::optim::Optimizer& optimizer, const OptionGroup& group);
/// Changes those that are given. The group's others stay as they are; where one is wrong, so do all.
void change_group_options(torch::optim::Optimizer& optimizer, std::size_t group,
                          const std::string& options);

/// Throws the error that make_optimizer() would throw of such options.
void check_options(const std::string& name, const std::string& options);

/// The given options with the defaults of those that are absent, as JSON.
std::string complete_options(const std::string& name, const std::string& options);

/// The state of an optimizer made here, or of any other with HasNamedState.
NamedState named_state(torch::optim::Optimizer& optimizer);

/// A name and options as a file in configs/ gives them.
struct OptimizerConfig {
  std::string optimizer;
  std::string options = "{}";  // JSON
  DecayRule decay = DecayRule::Everything;

  /// A file holds settings for several data sets; an unknown one is an error that lists them.
  static OptimizerConfig read(const std::filesystem::path& path, const std::string& setting);
  /// read() for the text of such a file; errors call it `source`.
  static OptimizerConfig parse(const std::string& text, const std::string& setting,
                               const std::string& source);
};

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const OptimizerConfig& config,
                                                        torch::nn::Module& module);

}  // namespace adaact
