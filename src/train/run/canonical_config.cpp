#include "train/run/canonical_config.h"

#include <adaact/optim/registry.h>

namespace adaact {
namespace {

/// 1 and 1.0 are the same option.
void make_numbers_real(nlohmann::json& value) {
  if (value.is_number()) value = value.get<double>();
  if (!value.is_structured()) return;
  for (auto& each : value) make_numbers_real(each);
}

}  // namespace

nlohmann::json canonical_fields(const RunConfig& config) {
  auto fields = nlohmann::json::parse(config.to_json());
  auto options =
      nlohmann::json::parse(complete_options(config.optimizer, config.optimizer_options));
  make_numbers_real(options);
  fields["optimizer_options"] = options;
  return fields;
}

}  // namespace adaact
