// Options of optimizers as JSON, alone and in the files of configs/.

#include <adaact/optim/registry.h>
#include <torch/nn/modules/linear.h>

#include "fuzz/fuzz_targets.h"

namespace adaact::fuzz {
namespace {

torch::nn::Module& tiny_layer() {
  static torch::nn::Linear layer(2, 1);
  return *layer;
}

/// The name of an optimizer, a line's end, its options.
void read_optimizer_options(const std::string& bytes) {
  const auto end = bytes.find('\n');
  if (end == std::string::npos) return;
  const auto name = bytes.substr(0, end);
  const auto options = bytes.substr(end + 1);
  const auto optimizer = make_optimizer(name, tiny_layer(), options);
  // Completed options make the same optimizer.
  make_optimizer(name, tiny_layer(), complete_options(name, options), DecayRule::NoVectors);
}

std::vector<Seed> optimizer_options_seeds() {
  std::vector<Seed> seeds;
  for (const auto& name : optimizer_names()) {
    seeds.push_back({name, name + "\n" + default_options(name)});
  }
  seeds.push_back({"sam_over_kfac", "sam\n" + default_options("sam", "kfac")});
  return seeds;
}

constexpr char kSetting[] = "cifar10";

void read_optimizer_config(const std::string& bytes) {
  const auto config = OptimizerConfig::parse(bytes, kSetting, kInputName);
  try {
    make_optimizer(config, tiny_layer());
  } catch (const c10::Error&) {
    // What is wrong with options is said by option; the file was named before.
  }
}

std::vector<Seed> optimizer_config_seeds() {
  return {{"adaact", R"({"optimizer":"adaact","source":"a table","settings":{"cifar10":{"lr":0.1,)"
                     R"("betas":[0.9,0.999],"eps":1e-08,"decay":"no_vectors"},"cifar100":{}}})"},
          {"sam", R"({"optimizer":"sam","settings":{"cifar10":{"base":"sgd","rho":0.05}}})"}};
}

}  // namespace

FuzzTarget optimizer_options_target() {
  FuzzTarget target{"optimizer_options", read_optimizer_options, optimizer_options_seeds};
  target.errors_name_input = false;
  return target;
}
FuzzTarget optimizer_config_target() {
  return {"optimizer_config", read_optimizer_config, optimizer_config_seeds};
}

}  // namespace adaact::fuzz
