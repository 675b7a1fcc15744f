// What reads all gradients.

#include <adaact/models/registry.h>
#include <torch/torch.h>

#include "gpu_kernels/work.h"
#include "kernels/global_norm_cuda.h"
#include "optim/device/device_step.h"

namespace adaact::bench {
namespace {

using Tensors = std::vector<torch::Tensor>;

Work gradients_work(const std::string& model_name, torch::ScalarType dtype,
                    const std::function<void(const Tensors&)>& read) {
  const auto model = make_model(model_name);
  const auto make = [&] {
    Tensors gradients;
    for (const auto& parameter : model->parameters()) {
      gradients.push_back(normal(parameter.sizes(), dtype));
    }
    return gradients;
  };
  const auto traffic_of_gradients = [](const Tensors& gradients) {
    Traffic traffic;
    for (const auto& gradient : gradients) traffic.add(gradient, 1);
    return traffic;
  };
  const auto sets = rotating_sets(
      make, [&](const Tensors& gradients) { return traffic_of_gradients(gradients).held; });
  Work work;
  work.call = [sets, read](std::size_t set) { read((*sets)[set]); };
  work.sets = sets->size();
  work.traffic = traffic_of_gradients(sets->front());
  return work;
}

}  // namespace

void add_gradient_benchmarks() {
  for (const std::string model : kModels) {
    for (const auto dtype : kParameterDtypes) {
      const auto what = model + "/" + name_of(dtype);
      add_benchmark("global_norm/" + what, [=] {
        return gradients_work(model, dtype,
                              [](const Tensors& gradients) { global_norm_cuda(gradients); });
      });
      add_benchmark("check_finite/" + what, [=] {
        const auto step = make_device_step(/*groups=*/1, torch::kCUDA);
        return gradients_work(model, dtype, [step](const Tensors& gradients) {
          check_finite_cuda(gradients, /*first_index=*/0, step);
        });
      });
    }
  }
}

}  // namespace adaact::bench
