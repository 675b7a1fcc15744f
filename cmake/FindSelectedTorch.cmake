# Makes the target `torch` of the LibTorch that adaact_select_torch() chose, and CUDA a language of
# the project where that LibTorch has it. Sets ADAACT_WITH_CUDA.

set(ADAACT_WITH_CUDA ${ADAACT_TORCH_CUDA})

if(ADAACT_WITH_CUDA)
  # GPUs of the A100 and H100 generations, and through the PTX of the latter whatever comes later.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES "80-real;90" CACHE STRING "CUDA architectures to compile for")
  endif()
  if(NOT CMAKE_CUDA_COMPILER AND ADAACT_NVCC)
    set(CMAKE_CUDA_COMPILER "${ADAACT_NVCC}")
  endif()
  set(CMAKE_CUDA_STANDARD 17)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  # LibTorch links the shared CUDA runtime; a second, static one would have its own state.
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
  enable_language(CUDA)
  # What LibTorch's own headers ask of nvcc.
  string(APPEND CMAKE_CUDA_FLAGS " --expt-relaxed-constexpr --expt-extended-lambda")
endif()

# In a function, because find_package(Torch) with CUDA sets CMAKE_CUDA_ARCHITECTURES to OFF and
# appends its own choice of -gencode and other flags to CMAKE_CUDA_FLAGS. Imported targets outlive
# the function, variables do not.
function(_adaact_find_torch)
  # Torch warns about the very CMAKE_CUDA_ARCHITECTURES that CMake itself insists on, and about
  # static libraries that its wheels do not ship. The probe has passed; only errors matter now.
  set(CMAKE_MESSAGE_LOG_LEVEL ERROR)
  set(TORCH_CUDA_ARCH_LIST 9.0)
  # See SelectTorch.cmake: keeps TorchConfig.cmake away from another LibTorch's Caffe2.
  set(Caffe2_DIR "${ADAACT_TORCH_DIR}/../Caffe2" CACHE PATH "" FORCE)
  mark_as_advanced(Caffe2_DIR)
  # For add_subdirectory: whoever links adaact has to see `torch` too. Before CMake 3.24 this has no
  # effect, and the enclosing project has to call find_package(Torch) itself.
  set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
  find_package(Torch REQUIRED PATHS "${ADAACT_TORCH_DIR}" NO_DEFAULT_PATH)
endfunction()

if(NOT TARGET torch)
  _adaact_find_torch()
endif()
