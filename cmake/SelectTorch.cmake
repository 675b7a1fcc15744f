# Chooses the LibTorch to build against.
#
#   adaact_select_torch()
#
# takes the first of these that works:
#   1. Torch_DIR or CMAKE_PREFIX_PATH, each as a CMake variable or in the environment;
#   2. the torch of the `python3` on the PATH;
#   3. the system's own, such as Debian's libtorch-dev.
#
# Finding a TorchConfig.cmake says little. Debian's python3-torch reports a CMake path that does not
# exist, a CUDA wheel is unusable without nvcc, and an old wheel links but has another C++ ABI than
# the rest of the system. So a candidate counts only once the project in torch_probe/ configures,
# builds and starts with it. One that does not is named with the reason and passed over.
#
# Sets, in the cache so that configuring again costs nothing:
#   ADAACT_TORCH_DIR      the directory of its TorchConfig.cmake
#   ADAACT_TORCH_VERSION  TORCH_VERSION of its headers
#   ADAACT_TORCH_ORIGIN   where it was found, in words
#   ADAACT_TORCH_CUDA     whether it was built with CUDA
#   ADAACT_NVCC           the CUDA compiler, which need not be on the PATH

if(NOT DEFINED ADAACT_TORCH_MINIMUM_VERSION)
  set(ADAACT_TORCH_MINIMUM_VERSION 1.13)
endif()
set(_adaact_probe_source "${CMAKE_CURRENT_LIST_DIR}/torch_probe")

function(adaact_select_torch)
  if(TARGET torch)
    # Somebody who uses us with add_subdirectory has chosen already.
    set(has_cuda OFF)
    if(TARGET torch_cuda)
      set(has_cuda ON)
    endif()
    set(ADAACT_TORCH_CUDA ${has_cuda} CACHE INTERNAL "")
    set(ADAACT_TORCH_VERSION "${Torch_VERSION}" CACHE INTERNAL "")
    set(ADAACT_TORCH_DIR "${Torch_DIR}" CACHE INTERNAL "")
    set(ADAACT_TORCH_ORIGIN "the enclosing project" CACHE INTERNAL "")
    message(STATUS "LibTorch: the enclosing project's")
    return()
  endif()

  # The choice is written back to Torch_DIR, so a Torch_DIR that differs from it is a new wish.
  set(wished_dir "${Torch_DIR}")
  set(new_wish OFF)
  if(wished_dir AND wished_dir STREQUAL "${ADAACT_TORCH_DIR}")
    set(wished_dir "${ADAACT_TORCH_WISHED_DIR}")
  elseif(wished_dir)
    set(new_wish ON)
  endif()
  set(request "${wished_dir}|${CMAKE_PREFIX_PATH}")
  string(APPEND request "|${CMAKE_CXX_COMPILER}|${CMAKE_CXX_COMPILER_VERSION}")
  if(NOT request STREQUAL "${ADAACT_TORCH_REQUEST}")
    set(new_wish ON)
  endif()
  # An environment variable that is gone says nothing (the build tool reconfigures from whatever
  # shell it runs in), one with another value does.
  foreach(variable IN ITEMS Torch_DIR CMAKE_PREFIX_PATH)
    set(env_${variable} "$ENV{${variable}}")
    if(env_${variable} AND NOT env_${variable} STREQUAL "${ADAACT_TORCH_ENV_${variable}}")
      set(new_wish ON)
    endif()
  endforeach()

  if(NOT new_wish AND EXISTS "${ADAACT_TORCH_DIR}/TorchConfig.cmake")
    message(STATUS "LibTorch ${ADAACT_TORCH_VERSION} from ${ADAACT_TORCH_ORIGIN}: "
                   "${ADAACT_TORCH_DIR} (chosen earlier)")
    set(Torch_DIR "${ADAACT_TORCH_DIR}" CACHE PATH "Directory of TorchConfig.cmake" FORCE)
    return()
  endif()

  if(DEFINED ENV{CUDACXX})
    set(ADAACT_NVCC "$ENV{CUDACXX}" CACHE FILEPATH "CUDA compiler")
  endif()
  find_program(ADAACT_NVCC nvcc
    HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(ADAACT_NVCC)

  # Every candidate is an origin and either the directory of a TorchConfig.cmake or the reason why
  # there is none. (CMake has no list of lists: the three run in parallel.)
  set(origins "")
  set(dirs "")
  set(faults "")
  if(wished_dir)
    _adaact_add_torch_candidate("Torch_DIR" "${wished_dir}" "")
  endif()
  if(env_Torch_DIR)
    _adaact_add_torch_candidate("the environment's Torch_DIR" "${env_Torch_DIR}" "")
  endif()
  if(CMAKE_PREFIX_PATH)
    _adaact_add_torch_prefixes("CMAKE_PREFIX_PATH" "${CMAKE_PREFIX_PATH}")
  endif()
  if(env_CMAKE_PREFIX_PATH)
    string(REPLACE ":" ";" prefixes "${env_CMAKE_PREFIX_PATH}")
    _adaact_add_torch_prefixes("the environment's CMAKE_PREFIX_PATH" "${prefixes}")
  endif()
  _adaact_add_python_torch()
  _adaact_add_torch_prefixes("the system" "/usr/local;/usr")

  set(rejected "")
  file(REMOVE_RECURSE "${CMAKE_BINARY_DIR}/torch_probe")
  list(LENGTH origins count)
  math(EXPR last "${count} - 1")
  foreach(index RANGE ${last})
    list(GET origins ${index} origin)
    list(GET dirs ${index} dir)
    list(GET faults ${index} fault)
    if(fault STREQUAL "-")
      _adaact_probe_torch("${dir}" "${CMAKE_BINARY_DIR}/torch_probe/${index}" fault version has_cuda)
      set(origin_text "${origin} (${dir})")
    else()
      set(origin_text "${origin}")
    endif()
    if(NOT fault STREQUAL "")
      message(STATUS "LibTorch: passed over ${origin_text}: ${fault}")
      string(APPEND rejected "  - ${origin_text}: ${fault}\n")
      continue()
    endif()

    set(ADAACT_TORCH_DIR "${dir}" CACHE INTERNAL "")
    set(ADAACT_TORCH_VERSION "${version}" CACHE INTERNAL "")
    set(ADAACT_TORCH_ORIGIN "${origin}" CACHE INTERNAL "")
    set(ADAACT_TORCH_CUDA "${has_cuda}" CACHE INTERNAL "")
    set(ADAACT_TORCH_WISHED_DIR "${wished_dir}" CACHE INTERNAL "")
    set(ADAACT_TORCH_ENV_Torch_DIR "${env_Torch_DIR}" CACHE INTERNAL "")
    set(ADAACT_TORCH_ENV_CMAKE_PREFIX_PATH "${env_CMAKE_PREFIX_PATH}" CACHE INTERNAL "")
    set(ADAACT_TORCH_REQUEST "${request}" CACHE INTERNAL "")
    set(Torch_DIR "${dir}" CACHE PATH "Directory of TorchConfig.cmake" FORCE)
    message(STATUS "LibTorch ${version} from ${origin}: ${dir}")
    return()
  endforeach()

  message(FATAL_ERROR
    "No usable LibTorch (${ADAACT_TORCH_MINIMUM_VERSION} or newer) was found. Tried:\n${rejected}"
    "Install Debian's libtorch-dev (scripts/bootstrap.sh does that), or activate a Python "
    "environment with torch, or name an unpacked LibTorch with -DCMAKE_PREFIX_PATH=<libtorch>. "
    "A LibTorch built with CUDA also needs nvcc of the same CUDA version, on the PATH or under "
    "CUDA_HOME. The full logs are in ${CMAKE_BINARY_DIR}/torch_probe.\n")
endfunction()

# Adds to origins, dirs and faults. An empty fault is written as "-": CMake drops empty list items.
macro(_adaact_add_torch_candidate origin dir fault)
  set(_dir "${dir}")
  set(_fault "${fault}")
  if(_fault STREQUAL "" AND NOT EXISTS "${_dir}/TorchConfig.cmake")
    set(_fault "${_dir} holds no TorchConfig.cmake")
  endif()
  if(_fault STREQUAL "")
    set(_fault "-")
  endif()
  # The same place may be named twice, for instance by Torch_DIR and by the active python3.
  if(NOT _fault STREQUAL "-" OR NOT _dir IN_LIST dirs)
    list(APPEND origins "${origin}")
    list(APPEND dirs "${_dir}")
    list(APPEND faults "${_fault}")
  endif()
endmacro()

# Adds the LibTorch below the first of the prefixes that has one.
macro(_adaact_add_torch_prefixes origin prefixes)
  unset(_adaact_found CACHE)
  find_path(_adaact_found TorchConfig.cmake
    PATHS ${prefixes}
    PATH_SUFFIXES Torch share/cmake/Torch lib/cmake/Torch
                  lib/${CMAKE_LIBRARY_ARCHITECTURE}/cmake/Torch
    NO_DEFAULT_PATH)
  set(_found "${_adaact_found}")
  unset(_adaact_found CACHE)
  if(_found)
    _adaact_add_torch_candidate("${origin}" "${_found}" "")
  else()
    string(REPLACE ";" ", " _shown "${prefixes}")
    _adaact_add_torch_candidate("${origin}" "-" "no TorchConfig.cmake below ${_shown}")
  endif()
endmacro()

macro(_adaact_add_python_torch)
  find_program(ADAACT_PYTHON3 python3)
  mark_as_advanced(ADAACT_PYTHON3)
  if(NOT ADAACT_PYTHON3)
    _adaact_add_torch_candidate("python3" "-" "there is no python3 on the PATH")
  else()
    execute_process(
      COMMAND "${ADAACT_PYTHON3}" -c "import torch; print(torch.utils.cmake_prefix_path)"
      RESULT_VARIABLE _status
      OUTPUT_VARIABLE _prefix
      ERROR_VARIABLE _error
      OUTPUT_STRIP_TRAILING_WHITESPACE)
    # Importing torch may print; the path comes last.
    string(REGEX REPLACE ".*\n" "" _prefix "${_prefix}")
    if(NOT _status EQUAL 0)
      _adaact_last_line("${_error}" _reason)
      _adaact_add_torch_candidate("python3 (${ADAACT_PYTHON3})" "-" "${_reason}")
    elseif(NOT IS_DIRECTORY "${_prefix}")
      _adaact_add_torch_candidate("python3 (${ADAACT_PYTHON3})" "-"
        "its torch.utils.cmake_prefix_path, ${_prefix}, does not exist")
    else()
      _adaact_add_torch_candidate("python3" "${_prefix}/Torch" "")
    endif()
  endif()
endmacro()

# Configures, builds and runs torch_probe/ against the LibTorch in `dir`. `fault` becomes empty if
# all of that worked, otherwise the line that says what did not.
function(_adaact_probe_torch dir work fault version has_cuda)
  file(REMOVE_RECURSE "${work}")
  file(MAKE_DIRECTORY "${work}")
  set(${version} "" PARENT_SCOPE)
  set(${has_cuda} OFF PARENT_SCOPE)

  # Sanitizers say nothing about a LibTorch, and a program built with one may need settings to run.
  string(REGEX REPLACE "-fsanitize[^ ]*" "" flags "${CMAKE_CXX_FLAGS}")
  set(arguments
    "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}"
    "-DCMAKE_CXX_FLAGS=${flags}"
    "-DTorch_DIR=${dir}"
    # TorchConfig.cmake looks for Caffe2 in the default places first, where it may find the one of
    # another LibTorch; naming it keeps the two together.
    "-DCaffe2_DIR=${dir}/../Caffe2"
    # Otherwise TorchConfig.cmake compiles and runs a program that asks for the GPU at hand.
    "-DTORCH_CUDA_ARCH_LIST=9.0")
  foreach(variable IN ITEMS CMAKE_MAKE_PROGRAM CMAKE_TOOLCHAIN_FILE CMAKE_CUDA_HOST_COMPILER)
    if(${variable})
      list(APPEND arguments "-D${variable}=${${variable}}")
    endif()
  endforeach()
  if(CMAKE_CUDA_COMPILER)
    list(APPEND arguments "-DCMAKE_CUDA_COMPILER=${CMAKE_CUDA_COMPILER}")
  elseif(ADAACT_NVCC)
    list(APPEND arguments "-DCMAKE_CUDA_COMPILER=${ADAACT_NVCC}")
  endif()

  execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${_adaact_probe_source}" -B "${work}" -G "${CMAKE_GENERATOR}"
            --no-warn-unused-cli ${arguments}
    RESULT_VARIABLE status
    OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  file(WRITE "${work}/probe.log" "${output}")
  if(status EQUAL 0)
    execute_process(
      COMMAND "${CMAKE_COMMAND}" --build "${work}"
      RESULT_VARIABLE status
      OUTPUT_VARIABLE output
      ERROR_VARIABLE output)
    file(APPEND "${work}/probe.log" "${output}")
  endif()
  if(NOT status EQUAL 0)
    _adaact_salient_line("${output}" reason)
    set(${fault} "${reason}" PARENT_SCOPE)
    return()
  endif()

  execute_process(
    COMMAND "${work}/torch_probe"
    RESULT_VARIABLE status
    OUTPUT_VARIABLE found_version
    ERROR_VARIABLE output
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  file(APPEND "${work}/probe.log" "${output}")
  if(NOT status EQUAL 0)
    _adaact_last_line("${output}" reason)
    set(${fault} "a program linked with it does not start: ${reason} (${status})" PARENT_SCOPE)
  elseif(found_version VERSION_LESS ADAACT_TORCH_MINIMUM_VERSION)
    set(${fault} "version ${found_version} is older than ${ADAACT_TORCH_MINIMUM_VERSION}"
      PARENT_SCOPE)
  else()
    file(READ "${work}/has_cuda.txt" found_cuda)
    set(${fault} "" PARENT_SCOPE)
    set(${version} "${found_version}" PARENT_SCOPE)
    set(${has_cuda} "${found_cuda}" PARENT_SCOPE)
  endif()
endfunction()

# The first error of CMake or else of the compiler or the linker in `output`, on one line.
function(_adaact_salient_line output result)
  _adaact_split_lines("${output}" lines)
  set(complaint "")
  set(in_cmake_error OFF)
  foreach(line IN LISTS lines)
    if(line MATCHES "^CMake Error: (.*)")
      set(complaint "${CMAKE_MATCH_1}")
      break()
    elseif(line MATCHES "^CMake Error at")
      set(in_cmake_error ON)
    elseif(in_cmake_error)
      # The message follows, indented, over one or several lines, and ends with an empty one.
      string(STRIP "${line}" line)
      if(NOT line STREQUAL "")
        string(APPEND complaint " ${line}")
      elseif(NOT complaint STREQUAL "")
        break()
      endif()
    endif()
  endforeach()
  # CMake's own message ends where it tells from where it was called.
  string(REGEX REPLACE " Call Stack \\(most recent.*" "" complaint "${complaint}")

  if(complaint STREQUAL "")
    foreach(line IN LISTS lines)
      if(line MATCHES "error: |undefined reference|cannot find -l")
        set(complaint "${line}")
        break()
      endif()
    endforeach()
  endif()
  if(complaint STREQUAL "")
    _adaact_last_line("${output}" complaint)
  endif()
  string(STRIP "${complaint}" complaint)
  set(${result} "${complaint}" PARENT_SCOPE)
endfunction()

function(_adaact_last_line output result)
  _adaact_split_lines("${output}" lines)
  set(last "no message")
  foreach(line IN LISTS lines)
    string(STRIP "${line}" line)
    if(NOT line STREQUAL "")
      set(last "${line}")
    endif()
  endforeach()
  set(${result} "${last}" PARENT_SCOPE)
endfunction()

function(_adaact_split_lines text result)
  # Semicolons and unbalanced brackets would change how CMake splits the list; a line may be empty.
  string(REGEX REPLACE "[][;]" " " text "${text}")
  string(REPLACE "\n" " ;" text "${text}")
  set(${result} "${text}" PARENT_SCOPE)
endfunction()
