# Runs SelectTorch.cmake in scratch projects:
#   - with a Torch_DIR whose TorchConfig.cmake is broken, which must be named with its reason and
#     passed over for a LibTorch that works;
#   - again, when the choice must come from the cache;
#   - with nothing but the broken one, which must end in an error that names it.
#
#   cmake -D WORK_DIR=... -D GENERATOR=... -D CXX_COMPILER=... -D WORKING_TORCH_DIR=...
#         [-D NVCC=...] -P select_torch_test.cmake

foreach(variable IN ITEMS WORK_DIR GENERATOR CXX_COMPILER WORKING_TORCH_DIR)
  if(NOT ${variable})
    message(FATAL_ERROR "${variable} is not set")
  endif()
endforeach()
get_filename_component(cmake_dir "${CMAKE_CURRENT_LIST_DIR}/../../cmake" ABSOLUTE)

file(REMOVE_RECURSE "${WORK_DIR}")
set(broken_dir "${WORK_DIR}/broken/Torch")
file(WRITE "${broken_dir}/TorchConfig.cmake" "message(FATAL_ERROR \"this LibTorch is broken\")\n")
file(WRITE "${WORK_DIR}/project/CMakeLists.txt" "
cmake_minimum_required(VERSION 3.20)
project(scratch CXX)
include(\"${cmake_dir}/SelectTorch.cmake\")
adaact_select_torch()
message(STATUS \"Torch_DIR is \${Torch_DIR}\")
")

# Configures the scratch project. The environment must not add candidates of its own.
function(configure build_name status output)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -E env --unset=Torch_DIR --unset=CMAKE_PREFIX_PATH
      "${CMAKE_COMMAND}" -S "${WORK_DIR}/project" -B "${WORK_DIR}/${build_name}" -G "${GENERATOR}"
      "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" "-DADAACT_NVCC=${NVCC}" ${ARGN}
    RESULT_VARIABLE result
    OUTPUT_VARIABLE text
    ERROR_VARIABLE text)
  message("${text}")
  # Error messages are wrapped.
  string(REGEX REPLACE "[ \n]+" " " text "${text}")
  set(${status} "${result}" PARENT_SCOPE)
  set(${output} "${text}" PARENT_SCOPE)
endfunction()

function(expect output pattern)
  if(NOT output MATCHES "${pattern}")
    message(FATAL_ERROR "expected the output above to match: ${pattern}")
  endif()
endfunction()

get_filename_component(working_prefix "${WORKING_TORCH_DIR}" DIRECTORY)
configure(fallback status output
  "-DTorch_DIR=${broken_dir}" "-DCMAKE_PREFIX_PATH=${working_prefix}")
if(NOT status EQUAL 0)
  message(FATAL_ERROR "configuring with a broken Torch_DIR and a working CMAKE_PREFIX_PATH failed")
endif()
expect("${output}" "passed over Torch_DIR \\([^)]*broken/Torch\\): this LibTorch is broken")
expect("${output}" "LibTorch [0-9]+\\.[0-9]+\\.[0-9]+ from CMAKE_PREFIX_PATH: ")
expect("${output}" "Torch_DIR is ${WORKING_TORCH_DIR} ")

configure(fallback status output)
expect("${output}" "LibTorch [0-9]+\\.[0-9]+\\.[0-9]+ .*\\(chosen earlier\\)")

configure(fallback status output "-DTorch_DIR=${broken_dir}")
expect("${output}" "passed over Torch_DIR [^:]*: this LibTorch is broken")

# Asking for a version that does not exist stands for a system without any usable LibTorch.
configure(none status output
  "-DTorch_DIR=${broken_dir}" "-DCMAKE_PREFIX_PATH=${working_prefix}"
  -DADAACT_TORCH_MINIMUM_VERSION=99)
if(status EQUAL 0)
  message(FATAL_ERROR "configuring without any usable LibTorch went through")
endif()
expect("${output}" "No usable LibTorch .*broken/Torch\\): this LibTorch is broken")
expect("${output}" "is older than 99")
expect("${output}" "libtorch-dev")
