# Flags of every target in this project, and the precompiled header they share.
#
# GCC takes a precompiled header only in a compilation with the same flags as its own. So flags are
# set here, for the directory and all below it, and not target by target.

# at::RecordFunction has one member more without NDEBUG, and its inputs() then asserts on it. LibTorch
# binaries are built with NDEBUG, so without it our idea of the class would not be the library's.
add_compile_definitions(NDEBUG)

# Not CMAKE_POSITION_INDEPENDENT_CODE: that compiles libraries with -fPIC but executables with -fPIE,
# and the two could not share a precompiled header.
add_compile_options(
  $<$<COMPILE_LANGUAGE:CXX>:-fPIC>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fPIC>)
# Of a shared library CMake would give it a second time. Without that static and shared libraries are made of
# equal objects, and ccache has those of the one for the other.
set(CMAKE_CXX_COMPILE_OPTIONS_PIC "")

# LibTorch's headers give no warnings: imported targets are included with -isystem. -Wpedantic is
# not for nvcc, whose generated host code it would complain about.
add_compile_options(
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic>"
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # For types of an anonymous namespace in a class outside of it. GCC takes a source that is included
  # into another for a header, where that would be an error.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # LibTorch's macros may be called without their last argument, which ISO C++17 does not allow.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-gnu-zero-variadic-macro-arguments>)
endif()
if(ADAACT_WARNINGS_AS_ERRORS)
  add_compile_options(
    $<$<COMPILE_LANGUAGE:CXX>:-Werror>
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Werror;-Werror=all-warnings>")
endif()

# For what has no loops over numbers of its own: to compile takes a third less. GCC takes the precompiled
# header at another level too.
set(ADAACT_LITTLE_OPTIMIZATION $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
# For tests none, where the precompiled header is theirs alone: GCC does not take one that was made with
# optimization into a compilation without.
set(ADAACT_TEST_OPTIMIZATION ${ADAACT_LITTLE_OPTIMIZATION})
if(CMAKE_UNITY_BUILD)
  set(ADAACT_TEST_OPTIMIZATION $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O0>)
endif()

if(ADAACT_PRECOMPILED_HEADER)
  if(ADAACT_USES_CCACHE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Keeps the mention of the precompiled header in the preprocessed text that ccache hashes.
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()

  # Owns the header, so that no target has to be built before another only to get at it.
  add_library(adaact_pch OBJECT "${PROJECT_SOURCE_DIR}/cmake/pch.cpp")
  target_link_libraries(adaact_pch PRIVATE torch)
  set_target_properties(adaact_pch PROPERTIES UNITY_BUILD OFF)
  if(CMAKE_UNITY_BUILD)
    target_compile_options(adaact_pch PRIVATE ${ADAACT_TEST_OPTIMIZATION})
  endif()
  # The language condition keeps the header away from .cu files, which nvcc could not read it in.
  target_precompile_headers(adaact_pch PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:<torch/torch.h$<ANGLE-R>>"
    "$<$<COMPILE_LANGUAGE:CXX>:<torch/script.h$<ANGLE-R>>")
endif()

# File by file: sources that use next to nothing of LibTorch compile faster than the precompiled header,
# half a gigabyte of it, is read. (Those of data/ are named in src/CMakeLists.txt.)
file(GLOB ADAACT_REPORT_SOURCES CONFIGURE_DEPENDS src/report/*.cpp)
set_source_files_properties(${ADAACT_REPORT_SOURCES}
  src/io/atomic_file.cpp src/io/checksum.cpp src/io/file_descriptor.cpp
  src/io/near_miss.cpp src/io/printable.cpp src/io/utf8.cpp
  src/train/run/append_log.cpp src/train/run/event_file.cpp src/train/run/interrupt.cpp
  PROPERTIES SKIP_PRECOMPILE_HEADERS ON)

# adaact_use_precompiled_header(<target> [FILE_BY_FILE])
#
# FILE_BY_FILE: not where sources are united. Those of the libraries and the tool save together no more than
# the header takes and would all have to wait for it; tests, which include all of LibTorch, save much.
function(adaact_use_precompiled_header target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "FILE_BY_FILE" "" "")
  if(ADAACT_PRECOMPILED_HEADER AND NOT (arg_FILE_BY_FILE AND CMAKE_UNITY_BUILD))
    target_precompile_headers(${target} REUSE_FROM adaact_pch)
  endif()
endfunction()
