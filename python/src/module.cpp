// adaact._core. What users see is written in Python, in python/adaact.

#include <filesystem>
#include <map>
#include <memory>

#include <adaact/io/safetensors.h>
#include <adaact/optim/non_finite.h>
#include <adaact/optim/registry.h>
#include <adaact/ranks/communicator.h>

#include "binding.h"
#include "io/error_text.h"
#include "kernels/gpu.h"

namespace adaact::python {
namespace {

/// Python's words for the library's errors, which pybind11 would tell with a backtrace.
void register_errors(py::module_& module) {
  // Leaked: at the end of the process Python is gone before static objects are.
  static const auto& non_finite_error = *std::make_unique<py::exception<NonFiniteError>>(
                                             module, "NonFiniteError", PyExc_ArithmeticError)
                                             .release();
  static const auto& rank_error =
      *std::make_unique<py::exception<RankError>>(module, "RankError", PyExc_RuntimeError)
           .release();
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    const auto tell = [](PyObject* type, const std::exception& error) {
      PyErr_SetString(type, error_text(error).c_str());
    };
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const NonFiniteError& error) {
      tell(non_finite_error.ptr(), error);
    } catch (const RankError& error) {
      tell(rank_error.ptr(), error);
    } catch (const c10::TypeError& error) {
      tell(PyExc_TypeError, error);
    } catch (const c10::ValueError& error) {
      tell(PyExc_ValueError, error);
    } catch (const c10::Error& error) {
      tell(PyExc_RuntimeError, error);
    } catch (const std::filesystem::filesystem_error& error) {
      tell(PyExc_OSError, error);
    }
  });
}

void register_registry(py::module_& module) {
  module.def("optimizer_names", &optimizer_names);
  module.def("describe_options", &describe_options, py::arg("name"), py::arg("sam_base") = "sgd");
  module.def("default_options", &default_options, py::arg("name"), py::arg("sam_base") = "sgd");
}

using Tensors = std::map<std::string, torch::Tensor>;
using Metadata = std::map<std::string, std::string>;

void register_files(py::module_& module) {
  module.def("read_tensors", [](const std::string& path) {
    const auto file = in_library([&] { return TensorFile::read(path); });
    return std::make_pair(file.tensors, file.metadata);
  });
  module.def("write_tensors",
             [](const std::string& path, const Tensors& tensors, const Metadata& metadata) {
               return in_library([&] {
                 TensorFile{tensors, metadata}.write(path);
                 return true;
               });
             });
}

}  // namespace
}  // namespace adaact::python

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  namespace python = adaact::python;
  module.attr("version") = ADAACT_VERSION;
  module.attr("built_for_torch") = ADAACT_BUILT_FOR_TORCH;
  module.attr("with_cuda") = !adaact::cuda_version().empty();
  python::register_errors(module);
  python::register_registry(module);
  python::register_files(module);
  python::register_moments(module);
  python::register_communicator(module);
  python::register_optimizer(module);
}
