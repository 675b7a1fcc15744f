#include <adaact/train/evaluate_weights.h>

#include <optional>

#include <adaact/models/weights.h>
#include <adaact/train/evaluate.h>
#include <nlohmann/json.hpp>

#include "train/run/run_parts.h"

namespace adaact {
namespace {

void check_classes(const LoadReport& weights, const Dataset& data,
                   const std::function<void(const std::string&)>& warn) {
  const auto classes = weights.metadata.find("classes");
  if (classes == weights.metadata.end()) return;
  const auto here = nlohmann::json(data.class_names()).dump();
  if (classes->second == here) return;
  warn("the weights are for the classes " + classes->second + ", the data have " + here);
}

/// A model with its weights and the test data for it.
struct WeightsOnData {
  WeightsOnData(RunConfig& config, const std::function<void(const std::string&)>& warn) {
    config.resolve();
    set_up_libtorch(config);
    data = open_split(config, Split::Test);
    model = build_model(config, *data);
    check_classes(load_weights(*model, config.weights), *data, warn);
    device = torch::Device(config.device);
    model->to(device);
    bf16 = config.precision == "bf16";
    channels_last = config.memory_format == "channels-last";
    if (channels_last) lay_out_channels_last(*model);
    loader.emplace(data, loader_options(config, /*workers=*/1, Split::Test));
  }

  std::shared_ptr<Dataset> data;
  std::shared_ptr<Model> model;
  std::optional<Loader> loader;
  torch::Device device = torch::kCPU;
  bool bf16 = false;
  bool channels_last = false;
};

}  // namespace

Evaluation evaluate_weights(RunConfig config, const std::function<void(const std::string&)>& warn) {
  WeightsOnData made(config, warn);
  return evaluate(*made.model, *made.loader, made.device, made.bf16, made.channels_last);
}

DetailedEvaluation evaluate_weights_in_detail(RunConfig config,
                                              const std::function<void(const std::string&)>& warn) {
  WeightsOnData made(config, warn);
  return *evaluate_in_detail_unless([] { return false; }, *made.model, *made.loader, made.device,
                                    made.bf16, made.channels_last);
}

}  // namespace adaact
