#include <functional>
#include <map>
#include <memory>

#include "binding.h"

namespace adaact::python {
namespace {

LayerKind kind_of(const std::string& name) {
  static const std::map<std::string, LayerKind> kinds{
      {"linear", LayerKind::Linear},
      {"convolution", LayerKind::Convolution},
      {"packed_projection", LayerKind::PackedProjection},
      {"transposed_convolution", LayerKind::TransposedConvolution},
      {"recurrent", LayerKind::Recurrent},
      {"normalization", LayerKind::Normalization},
      {"embedding", LayerKind::Embedding},
      {"other", LayerKind::Other}};
  return kinds.at(name);
}

bool is_shut_down() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() == 0 || Py_IsFinalizing() != 0;
#else
  return Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0;
#endif
}

/// Threads of LibTorch call it too, and they do not hold the GIL.
void drop_reference(py::object* reference) {
  if (is_shut_down()) {
    reference->release();
  } else {
    const py::gil_scoped_acquire gil;
    *reference = py::object();
  }
  std::default_delete<py::object>()(reference);
}

/// `module.training`, read whenever a layer is used: Python sets it without telling anybody.
std::function<bool()> training_flag_of(const py::object& weak_module) {
  if (weak_module.is_none()) return nullptr;
  const std::shared_ptr<py::object> shared(std::make_unique<py::object>(weak_module).release(),
                                           &drop_reference);
  return [shared] {
    if (is_shut_down()) return true;
    const py::gil_scoped_acquire gil;
    const auto module = (*shared)();
    return module.is_none() || module.attr("training").cast<bool>();
  };
}

}  // namespace

LayerMap layer_map_of(const std::vector<Layer>& layers) {
  std::vector<DescribedLayer> described;
  described.reserve(layers.size());
  for (const auto& [name, kind, parameters, weak_module] : layers) {
    described.push_back({name, kind_of(kind), parameters, training_flag_of(weak_module)});
  }
  return LayerMap(described);
}

}  // namespace adaact::python
