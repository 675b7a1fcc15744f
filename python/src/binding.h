#pragma once

// What the sources of adaact._core share. Each of them registers a part of the module.

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <adaact/observe/layer_map.h>
#include <torch/extension.h>

#include "io/warning_listener.h"

namespace adaact::python {

void register_communicator(py::module_& module);
void register_moments(py::module_& module);
void register_optimizer(py::module_& module);

/// A layer as Python tells it: name, kind, parameters by their local names, and a weak reference to the module, or
/// None where it is always in training.
using Layer = std::tuple<std::string, std::string, NamedTensors, py::object>;

LayerMap layer_map_of(const std::vector<Layer>& layers);

/// Runs what belongs to the library without the GIL, and warns in Python of what it has warned of.
template <typename Call>
auto in_library(Call&& call) {
  std::vector<std::string> warnings;
  auto result = [&] {
    const WarningListener listener([&](const std::string& text) { warnings.push_back(text); });
    const py::gil_scoped_release released;
    return call();
  }();
  for (const auto& text : warnings) py::module_::import("adaact._warn").attr("warn")(text);
  return result;
}

}  // namespace adaact::python
