#include "experiments/paper/catalog.h"

#include <algorithm>

#include <c10/util/Exception.h>

#include "io/near_miss.h"

namespace adaact {

const std::vector<const Experiment*>& experiments() {
  static const std::vector<const Experiment*> all{&fig_activation_variance(),
                                                  &fig_covariance_heatmap(),
                                                  &fig_power(),
                                                  &fig_bounded(),
                                                  &fig_step_size(),
                                                  &fig_no_batchnorm(),
                                                  &fig_cifar(),
                                                  &table_cifar(),
                                                  &table_imagenet_resnet(),
                                                  &table_imagenet_vit(),
                                                  &theory_convergence(),
                                                  &weight_decay(),
                                                  &foof_variants(),
                                                  &full_covariance_cost(),
                                                  &lenet_rates(),
                                                  &equal_effort()};
  return all;
}

const Experiment& experiment_named(const std::string& name) {
  const auto& all = experiments();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto* each) { return each->name() == name; });
  std::vector<std::string> names;
  std::string list;
  for (const auto* experiment : all) {
    names.push_back(experiment->name());
    list += (list.empty() ? "" : ", ") + names.back();
  }
  TORCH_CHECK_VALUE(found != all.end(), "adaact: there is no experiment '", name,
                    "'; there are: ", list, did_you_mean(name, names));
  return **found;
}

}  // namespace adaact
