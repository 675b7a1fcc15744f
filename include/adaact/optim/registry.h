#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

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

std::vector<std::string> optimizer_names();

/// Every option of an optimizer with its default, as JSON. For "sam" over a given base.
std::string default_options(const std::string& name, const std::string& sam_base = "sgd");

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
