// Updates. The learning rate of a new DeviceStep is 0, so that parameters stay where they are.

#include <adaact/models/registry.h>
#include <adaact/observe/layer_map.h>
#include <torch/torch.h>

#include "gpu_kernels/work.h"
#include "optim/adaact/update_cuda.h"
#include "optim/adan/adan_update_cuda.h"
#include "optim/device/device_step.h"
#include "optim/lamb/lamb_update_cuda.h"

namespace adaact::bench {
namespace {

constexpr std::int64_t kUpdatesBefore = 100;

struct AdaActRule {
  using Parameter = AdaActParameter;

  static Parameter make(const NamedParameter& named, torch::ScalarType dtype) {
    const auto shape = named.tensor.sizes();
    Parameter parameter;
    parameter.tensors.theta = normal(shape, dtype);
    parameter.tensors.g = normal(shape, dtype);
    parameter.tensors.m = normal(shape, torch::kFloat32);
    if (named.is_layer_weight) {
      const auto columns = named.tensor.numel() / named.tensor.size(0);
      parameter.tensors.v = positive({1, columns});
      parameter.tensors.sum = positive({1, columns});
    }
    parameter.beta1 = 0.9;
    parameter.beta2 = 0.999;
    parameter.eps = 1e-8;
    parameter.weight_decay = 5e-4;
    parameter.count = 128;
    parameter.updates = parameter.observations = kUpdatesBefore;
    return parameter;
  }

  static void add_traffic(const Parameter& parameter, Traffic& traffic) {
    const auto& [theta, g, m, v, sum] = parameter.tensors;
    for (const auto* read_and_written : {&theta, &m, &v}) traffic.add(*read_and_written, 2);
    for (const auto* read : {&g, &sum}) traffic.add(*read, 1);
  }

  static void update(const std::vector<Parameter>& parameters, const DeviceStep& step) {
    adaact_update_cuda(parameters, &step);
  }
};

struct AdanRule {
  using Parameter = AdanParameter;

  static Parameter make(const NamedParameter& named, torch::ScalarType dtype) {
    const auto shape = named.tensor.sizes();
    Parameter parameter;
    parameter.tensors = {
        normal(shape, dtype),           normal(shape, dtype), normal(shape, torch::kFloat32),
        normal(shape, torch::kFloat32), positive(shape),      normal(shape, torch::kFloat32)};
    parameter.beta1 = 0.98;
    parameter.beta2 = 0.92;
    parameter.beta3 = 0.99;
    parameter.eps = 1e-8;
    parameter.weight_decay = 0.02;
    parameter.updates = kUpdatesBefore;
    return parameter;
  }

  static void add_traffic(const Parameter& parameter, Traffic& traffic) {
    const auto& [theta, g, m, v, n, previous] = parameter.tensors;
    for (const auto* read_and_written : {&theta, &m, &v, &n, &previous}) {
      traffic.add(*read_and_written, 2);
    }
    traffic.add(g, 1);
  }

  static void update(const std::vector<Parameter>& parameters, const DeviceStep& step) {
    adan_update_cuda(parameters, /*gradient_norm=*/{}, &step);
  }
};

struct LambRule {
  using Parameter = LambParameter;

  static Parameter make(const NamedParameter& named, torch::ScalarType dtype) {
    const auto shape = named.tensor.sizes();
    Parameter parameter;
    parameter.tensors = {normal(shape, dtype), normal(shape, dtype), normal(shape, torch::kFloat32),
                         positive(shape)};
    parameter.beta1 = 0.9;
    parameter.beta2 = 0.999;
    parameter.eps = 1e-6;
    parameter.weight_decay = 0.01;
    parameter.updates = kUpdatesBefore;
    return parameter;
  }

  /// The norms of θ and u are known only after all of the tensor was read, so that θ, m and v are
  /// read once more for the update.
  static void add_traffic(const Parameter& parameter, Traffic& traffic) {
    const auto& [theta, g, m, v] = parameter.tensors;
    for (const auto* read_twice_and_written : {&theta, &m, &v}) {
      traffic.add(*read_twice_and_written, 3);
    }
    traffic.add(g, 1);
  }

  static void update(const std::vector<Parameter>& parameters, const DeviceStep& step) {
    lamb_update_cuda(parameters, /*gradient_norm=*/{}, &step);
  }
};

template <typename Rule>
Traffic traffic_of_update(const std::vector<typename Rule::Parameter>& parameters) {
  Traffic traffic;
  for (const auto& parameter : parameters) Rule::add_traffic(parameter, traffic);
  return traffic;
}

template <typename Rule>
Work update_work(const std::string& model_name, torch::ScalarType dtype) {
  const auto model = make_model(model_name);
  const LayerMap map(*model);
  const auto make = [&] {
    std::vector<typename Rule::Parameter> parameters;
    for (const auto& named : map.parameters()) {
      parameters.push_back(Rule::make(named, dtype));
      TORCH_CHECK(can_update_cuda(parameters.back()), "the kernels do not take ", named.name);
    }
    return parameters;
  };
  const auto sets = rotating_sets(
      make, [](const auto& parameters) { return traffic_of_update<Rule>(parameters).held; });
  const auto step = make_device_step(/*groups=*/1, torch::kCUDA);
  Work work;
  work.call = [sets, step](std::size_t set) { Rule::update((*sets)[set], step); };
  work.sets = sets->size();
  work.traffic = traffic_of_update<Rule>(sets->front());
  return work;
}

}  // namespace

void add_update_benchmarks() {
  for (const std::string model : kModels) {
    for (const auto dtype : kParameterDtypes) {
      const auto what = model + "/" + name_of(dtype);
      add_benchmark("adaact_update/" + what, [=] { return update_work<AdaActRule>(model, dtype); });
      add_benchmark("adan_update/" + what, [=] { return update_work<AdanRule>(model, dtype); });
      add_benchmark("lamb_update/" + what, [=] { return update_work<LambRule>(model, dtype); });
    }
  }
}

}  // namespace adaact::bench
