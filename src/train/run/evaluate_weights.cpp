#include <adaact/train/evaluate_weights.h>

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

}  // namespace

Evaluation evaluate_weights(RunConfig config, const std::function<void(const std::string&)>& warn) {
  config.resolve();
  set_up_libtorch(config);
  const auto data = open_split(config, Split::Test);
  const auto model = build_model(config, *data);
  check_classes(load_weights(*model, config.weights), *data, warn);
  const torch::Device device(config.device);
  model->to(device);
  Loader loader(data, loader_options(config, /*workers=*/1, Split::Test));
  const bool channels_last = config.memory_format == "channels-last";
  if (channels_last) lay_out_channels_last(*model);
  return evaluate(*model, loader, device, config.precision == "bf16", channels_last);
}

}  // namespace adaact
