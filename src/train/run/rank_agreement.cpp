#include "train/run/rank_agreement.h"

#include <string>
#include <vector>

#include <torch/torch.h>
#include <torch/version.h>
#include <nlohmann/json.hpp>

#include "io/json_text.h"
#include "ranks/shared_text.h"
#include "train/run/build_id.h"
#include "train/run/run_settings.h"

namespace adaact {
namespace {

using nlohmann::json;

/// A line for each entry of an object, as "lr 0.1".
std::string lines_of(const json& object) {
  std::string lines;
  for (const auto& [name, value] : object.items()) lines += name + " " + value.dump() + "\n";
  return lines;
}

std::string lines_of_options(const RunConfig& config) {
  auto fields = parse_json<json>(config.to_json(), "a configuration");
  const json options = fields.at("optimizer_options");
  fields.erase("optimizer_options");
  return lines_of(fields) + lines_of(options);
}

/// All but the values of the tensors.
json outline_of(const TensorFile& file) {
  auto tensors = json::array();
  for (const auto& [name, tensor] : file.tensors) {
    tensors.push_back({{"name", name},
                       {"dtype", static_cast<int>(tensor.scalar_type())},
                       {"sizes", tensor.sizes().vec()}});
  }
  return {{"metadata", file.metadata}, {"tensors", tensors}};
}

TensorFile empty_file(const json& outline) {
  TensorFile file;
  outline.at("metadata").get_to(file.metadata);
  for (const auto& entry : outline.at("tensors")) {
    file.tensors[entry.at("name")] =
        torch::empty(entry.at("sizes").get<std::vector<std::int64_t>>(),
                     static_cast<torch::ScalarType>(entry.at("dtype").get<int>()));
  }
  return file;
}

}  // namespace

void check_same_run(const RunConfig& config, Communicator& ranks) {
  if (ranks.size() == 1) return;
  auto compared = config;
  compared.data_dir.clear();
  compared.threads = 0;
  compared.device = config.device.substr(0, config.device.find(':'));
  check_same_on_all_ranks(
      ranks, "its program",
      "adaact " ADAACT_VERSION "\nLibTorch " TORCH_VERSION "\nbuild " + build_id());
  check_same_on_all_ranks(ranks, "its options", lines_of_options(compared));
}

void check_same_settings(const RunSettings& settings, Communicator& ranks) {
  auto compared = to_json(settings);
  compared.erase("workers");
  check_same_on_all_ranks(ranks, "its options", lines_of(compared));
}

void share_tensor_file(TensorFile& file, Communicator& ranks) {
  if (ranks.size() == 1) return;
  const auto own = ranks.is_first() ? outline_of(file).dump() : std::string();
  const auto outline = parse_json<json>(text_of_rank(/*root=*/0, own, ranks), "what rank 0 sent");
  if (!ranks.is_first()) file = empty_file(outline);
  std::vector<torch::Tensor> tensors;
  for (auto& [name, tensor] : file.tensors) {
    tensor = tensor.cpu().contiguous();
    tensors.push_back(tensor);
  }
  ranks.broadcast(tensors, /*root=*/0);
}

int signal_of_all(int own, Communicator& ranks) {
  if (ranks.size() == 1) return own;
  for (const auto& signal : ranks.gather(std::to_string(own))) {
    if (signal != "0") return std::stoi(signal);
  }
  return 0;
}

}  // namespace adaact
