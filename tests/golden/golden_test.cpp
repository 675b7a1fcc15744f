// Replays training runs that other people's implementations recorded, and compares every kept step.
// Runs every *.safetensors file of the directory named by ADAACT_GOLDEN_DIR (by default the copies
// beside this file), whatever its name: the file says which model and which optimizer it needs.

#include <cstdlib>
#include <filesystem>
#include <functional>

#include <adaact/adaact.h>
#include <adaact/models/registry.h>
#include <adaact/models/weights.h>
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

/// A model under one interface, whether the recording describes it or names it.
struct RecordedModel {
  std::shared_ptr<torch::nn::Module> module;
  std::function<torch::Tensor(const torch::Tensor&)> forward;
};

/// The recording does not say for what data: its tensors do.
RecordedModel named_model(const std::string& name, const TensorFile& file) {
  auto options = adaact::default_model_options(name);
  const auto head = adaact::make_model(name)->head_name();
  options.classes = file.at("init." + head + ".weight").size(0);
  options.channels = file.at("x").size(2);
  options.image_size = file.at("x").size(-1);
  const auto model = adaact::make_model(name, options);
  return {model, [model](const torch::Tensor& x) { return model->forward(x); }};
}

RecordedModel recorded_model(const TensorFile& file) {
  const auto& text = file.metadata.at("model");
  const auto description = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!description.is_array()) {
    return named_model(description.is_string() ? description.get<std::string>() : text, file);
  }
  adaact::testing::ChainModel model(description);
  return {model.ptr(), [model](const torch::Tensor& x) mutable { return model->forward(x); }};
}

torch::Tensor mean_cross_entropy(const torch::Tensor& logits, const torch::Tensor& labels) {
  return torch::nll_loss(torch::log_softmax(logits, 1), labels);
}

void replay(const TensorFile& file) {
  const auto metadata = [&](const char* key) { return file.metadata.at(key); };
  const auto model = recorded_model(file);
  model.module->to(torch::kFloat64);
  load_initial_state(*model.module, file);

  const auto hyperparameters = json::parse(metadata("hyperparameters"));
  const auto optimizer = adaact::make_optimizer(metadata("optimizer"), *model.module,
                                                options_from(hyperparameters).dump());

  const auto steps = std::stoll(metadata("steps"));
  const auto kept = json::parse(metadata("kept_steps")).get<std::set<int64_t>>();
  for (int64_t t = 1; t <= steps; ++t) {
    for (auto& group : optimizer->param_groups()) {
      group.options().set_lr(file.at("lr")[t - 1].item<double>());
    }
    const auto loss = optimizer->step([&] {
      optimizer->zero_grad();
      auto value = mean_cross_entropy(model.forward(file.at("x")[t - 1]), file.at("y")[t - 1]);
      value.backward();
      return value;
    });
    EXPECT_TRUE(all_close(loss.detach(), file.at("loss")[t - 1], kTolerance)) << "loss at " << t;
    if (kept.count(t) == 0) continue;
    for (const auto& parameter : model.module->named_parameters()) {
      const auto name = "step" + std::to_string(t) + "." + parameter.key();
      EXPECT_TRUE(all_close(parameter.value().detach(), file.at(name), kTolerance)) << name;
    }
  }
  if (hyperparameters.contains("beta2")) {
    compare_second_moments(*optimizer, *model.module, file, hyperparameters.at("beta2"), steps);
  }
}

class GoldenTest : public ::testing::TestWithParam<fs::path> {};

TEST_P(GoldenTest, ReplaysTheRecordedTrajectory) { replay(TensorFile::read(GetParam())); }

std::string case_name(const ::testing::TestParamInfo<fs::path>& info) {
  auto name = info.param.stem().string();
  std::replace_if(
      name.begin(), name.end(),
      [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Directory, GoldenTest, ::testing::ValuesIn(golden_files()), case_name);

/// A recording of plain gradient descent, w − lr·g, for a model by name.
TensorFile record_gradient_descent(const std::string& name) {
  constexpr double kLr = 0.05;
  constexpr int64_t kSteps = 2;
  torch::manual_seed(0);
  auto options = adaact::default_model_options(name);
  options.classes = 7;
  const auto model = adaact::make_model(name, options);
  model->to(torch::kFloat64);
  TensorFile file;
  file.metadata = {{"model", name},
                   {"optimizer", "sgd"},
                   {"steps", "2"},
                   {"kept_steps", "[1, 2]"},
                   {"hyperparameters", R"({"momentum": 0.0, "weight_decay": 0.0})"}};
  for (const auto& [key, tensor] : adaact::state_tensors(*model)) {
    file.tensors["init." + key] = tensor.detach().clone();
  }
  file.tensors["x"] = torch::randn({kSteps, 4, 3, 32, 32}, torch::kFloat64);
  file.tensors["y"] = torch::randint(7, {kSteps, 4}, torch::kLong);
  file.tensors["lr"] = torch::full({kSteps}, kLr, torch::kFloat64);
  file.tensors["loss"] = torch::empty({kSteps}, torch::kFloat64);
  for (int64_t t = 0; t < kSteps; ++t) {
    const auto loss = mean_cross_entropy(model->forward(file.at("x")[t]), file.at("y")[t]);
    file.at("loss")[t].copy_(loss.detach());
    const auto gradients = torch::autograd::grad({loss}, model->parameters());
    const torch::NoGradGuard no_grad;
    std::size_t i = 0;
    for (auto& parameter : model->named_parameters()) {
      parameter.value().sub_(kLr * gradients[i++]);
      file.tensors["step" + std::to_string(t + 1) + "." + parameter.key()] =
          parameter.value().detach().clone();
    }
  }
  return file;
}

TEST(NamedModel, IsReplayed) {
  for (const std::string name : {"lenet5", "resnet20"}) {
    SCOPED_TRACE(name);
    replay(record_gradient_descent(name));
  }
}

TEST(GoldenDirectory, HoldsTrajectories) {
  EXPECT_FALSE(golden_files().empty()) << golden_directory();
}

}  // namespace
