// Replays training runs that other people's implementations recorded, and compares every kept step.
// Runs every *.safetensors file of the directory named by ADAACT_GOLDEN_DIR (by default the copies
// beside this file), whatever its name: the file says which model and which optimizer it needs.

#include <cstdlib>
#include <filesystem>

#include <adaact/adaact.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "golden/chain_model.h"
#include "support/tolerance.h"

namespace {

using adaact::TensorFile;
using adaact::testing::all_close;
using nlohmann::json;
namespace fs = std::filesystem;

constexpr double kTolerance = 1e-9;  // per tensor, max|Δ| / max|reference|

fs::path golden_directory() {
  const char* named = std::getenv("ADAACT_GOLDEN_DIR");
  return named != nullptr ? named : ADAACT_GOLDEN_DEFAULT_DIR;
}

std::vector<fs::path> golden_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(golden_directory())) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// A recording's hyperparameters under this library's names.
json options_from(const json& recorded) {
  auto options = json::object();
  auto betas = json::array();
  for (const auto& [key, value] : recorded.items()) {
    if (key == "beta1" || key == "beta3") continue;
    if (key == "beta2" && recorded.contains("beta1")) {
      betas = {recorded["beta1"], value};
      if (recorded.contains("beta3")) betas.push_back(recorded["beta3"]);
      options["betas"] = betas;
    } else if (key == "no_prox") {
      options["proximal"] = !value.get<bool>();
    } else if (key == "max_grad_norm" && value == 0.0) {
      options[key] = nullptr;  // no limit
    } else {
      options[key] = value;
    }
  }
  return options;
}

void load_initial_state(torch::nn::Module& model, const TensorFile& file) {
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model.named_parameters()) {
    parameter.value().copy_(file.at("init." + parameter.key()));
  }
  for (auto& buffer : model.named_buffers()) buffer.value().copy_(file.at("init." + buffer.key()));
}

/// V is not part of LibTorch's interface: only AdaAct has it.
void compare_second_moments(const torch::optim::Optimizer& optimizer, torch::nn::Module& model,
                            const TensorFile& file, double beta2, int64_t steps) {
  const auto* adaact = dynamic_cast<const adaact::AdaAct*>(&optimizer);
  if (adaact == nullptr) return;
  const std::string prefix = "ema_second_moment.";
  for (const auto& [name, reference] : file.tensors) {
    if (name.rfind(prefix, 0) != 0) continue;
    const auto weight = model.named_parameters()[name.substr(prefix.size()) + ".weight"];
    const auto v_hat = adaact->second_moment(weight).flatten();
    const auto v = v_hat * (1.0 - std::pow(beta2, steps));
    EXPECT_TRUE(all_close(v, reference.narrow(0, 0, v.size(0)), kTolerance)) << name;
  }
}

class GoldenTest : public ::testing::TestWithParam<fs::path> {};

TEST_P(GoldenTest, ReplaysTheRecordedTrajectory) {
  const auto file = TensorFile::read(GetParam());
  const auto metadata = [&](const char* key) { return file.metadata.at(key); };

  const auto description = json::parse(metadata("model"), nullptr, /*allow_exceptions=*/false);
  if (!description.is_array())
    GTEST_SKIP() << "model '" << metadata("model") << "' does not exist yet";
  adaact::testing::ChainModel model(description);
  model->to(torch::kFloat64);
  load_initial_state(*model, file);

  const auto hyperparameters = json::parse(metadata("hyperparameters"));
  const auto optimizer =
      adaact::make_optimizer(metadata("optimizer"), *model, options_from(hyperparameters).dump());

  const auto steps = std::stoll(metadata("steps"));
  const auto kept = json::parse(metadata("kept_steps")).get<std::set<int64_t>>();
  for (int64_t t = 1; t <= steps; ++t) {
    for (auto& group : optimizer->param_groups()) {
      group.options().set_lr(file.at("lr")[t - 1].item<double>());
    }
    const auto loss = optimizer->step([&] {
      optimizer->zero_grad();
      const auto logits = model->forward(file.at("x")[t - 1]);
      auto value = torch::nll_loss(torch::log_softmax(logits, 1), file.at("y")[t - 1]);
      value.backward();
      return value;
    });
    EXPECT_TRUE(all_close(loss.detach(), file.at("loss")[t - 1], kTolerance)) << "loss at " << t;
    if (kept.count(t) == 0) continue;
    for (const auto& parameter : model->named_parameters()) {
      const auto name = "step" + std::to_string(t) + "." + parameter.key();
      EXPECT_TRUE(all_close(parameter.value().detach(), file.at(name), kTolerance)) << name;
    }
  }
  if (hyperparameters.contains("beta2")) {
    compare_second_moments(*optimizer, *model, file, hyperparameters.at("beta2"), steps);
  }
}

std::string case_name(const ::testing::TestParamInfo<fs::path>& info) {
  auto name = info.param.stem().string();
  std::replace_if(
      name.begin(), name.end(),
      [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Directory, GoldenTest, ::testing::ValuesIn(golden_files()), case_name);

TEST(GoldenDirectory, HoldsTrajectories) {
  EXPECT_FALSE(golden_files().empty()) << golden_directory();
}

}  // namespace
