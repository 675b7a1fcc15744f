# Chooses Python's own LibTorch for the Python package: another one would be a second LibTorch in the process.
#
# The package is for the torch of the Python that it is built with, outside of pip's isolation. Where that
# torch has CUDA and there is a CUDA compiler, SelectTorch.cmake goes on with it as ever. Where there is none,
# the CPU's sources are all that can be compiled: the target `torch` is then made here, because
# find_package(Torch) fails without nvcc.
#
# Sets ADAACT_PYTHON_TORCH, its folder, and ADAACT_PYTHON_TORCH_VERSION.

set(ADAACT_CUDA AUTO CACHE STRING "CUDA kernels in the Python package: AUTO (where there is nvcc) or OFF")
set_property(CACHE ADAACT_CUDA PROPERTY STRINGS AUTO OFF)

find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module)
# -E: by Python's variables pip puts a folder before all others that hides the packages which are installed, and leaves
# out the user's site.
execute_process(
  COMMAND "${Python_EXECUTABLE}" -E -c "import os, torch; print(os.path.dirname(torch.__file__), \
torch.__version__, int(torch._C._GLIBCXX_USE_CXX11_ABI), torch.version.cuda or '-', sep=';')"
  RESULT_VARIABLE status OUTPUT_VARIABLE answer ERROR_VARIABLE complaint OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${Python_EXECUTABLE} has no torch that can be imported. Install torch 2.4 to 2.11 first; "
    "where the package is built in an environment of its own, as by uv, say --no-build-isolation.\n${complaint}")
endif()
string(REGEX REPLACE ".*\n" "" answer "${answer}") # importing torch may print
list(GET answer 0 ADAACT_PYTHON_TORCH)
list(GET answer 1 ADAACT_PYTHON_TORCH_VERSION)
list(GET answer 2 new_abi)
list(GET answer 3 cuda)
if(ADAACT_PYTHON_TORCH_VERSION VERSION_LESS 2.4)
  message(FATAL_ERROR "Python's torch is ${ADAACT_PYTHON_TORCH_VERSION}, expected 2.4 or newer")
endif()

find_program(ADAACT_NVCC nvcc
  HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
if(NOT cuda STREQUAL "-" AND ADAACT_CUDA AND ADAACT_NVCC)
  set(Torch_DIR "${ADAACT_PYTHON_TORCH}/share/cmake/Torch" CACHE PATH "Directory of TorchConfig.cmake" FORCE)
  message(STATUS "Python package: for torch ${ADAACT_PYTHON_TORCH_VERSION}, with CUDA kernels")
else()
  add_library(torch SHARED IMPORTED GLOBAL)
  set_target_properties(torch PROPERTIES IMPORTED_LOCATION "${ADAACT_PYTHON_TORCH}/lib/libtorch.so")
  target_include_directories(torch INTERFACE
    "${ADAACT_PYTHON_TORCH}/include" "${ADAACT_PYTHON_TORCH}/include/torch/csrc/api/include")
  target_link_libraries(torch INTERFACE
    "${ADAACT_PYTHON_TORCH}/lib/libtorch_cpu.so" "${ADAACT_PYTHON_TORCH}/lib/libc10.so")
  target_compile_definitions(torch INTERFACE _GLIBCXX_USE_CXX11_ABI=${new_abi})
  set(Torch_VERSION "${ADAACT_PYTHON_TORCH_VERSION}")
  set(Torch_DIR "${ADAACT_PYTHON_TORCH}/share/cmake/Torch")
  message(STATUS "Python package: for torch ${ADAACT_PYTHON_TORCH_VERSION}, CPU kernels alone")
endif()
