# NCCL, by which GPUs of several processes add up tensors. Without it src/ranks/nccl_without.cpp says that there is none.
#
#   ADAACT_NCCL=AUTO   take one that is there, in a build with CUDA
#   ADAACT_NCCL=ON     fail without one
#   ADAACT_NCCL=OFF    do not look for one
#
# Sets ADAACT_WITH_NCCL, NCCL_INCLUDE_DIR and NCCL_LIBRARY.

set(ADAACT_NCCL AUTO CACHE STRING "NCCL for training by the GPUs of many processes: AUTO, ON or OFF")
set_property(CACHE ADAACT_NCCL PROPERTY STRINGS AUTO ON OFF)

set(ADAACT_WITH_NCCL OFF)
if(NOT ADAACT_NCCL STREQUAL "OFF" AND ADAACT_WITH_CUDA)
  # The one that came with a LibTorch from PyPI first: a process has one libnccl.so.2, and LibTorch loads it.
  get_filename_component(site_packages "${ADAACT_TORCH_DIR}/../../../.." ABSOLUTE)
  get_filename_component(cuda "${CMAKE_CUDA_COMPILER}/../.." ABSOLUTE)
  set(places "${site_packages}/nvidia/nccl" "${cuda}")
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${places} PATH_SUFFIXES include)
  find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 NAMES_PER_DIR HINTS ${places} PATH_SUFFIXES lib lib64)
  mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)
  if(NCCL_INCLUDE_DIR AND NCCL_LIBRARY)
    set(ADAACT_WITH_NCCL ON)
  endif()
endif()
if(ADAACT_WITH_NCCL)
  message(STATUS "NCCL: ${NCCL_LIBRARY}")
elseif(ADAACT_NCCL STREQUAL "ON")
  message(FATAL_ERROR "ADAACT_NCCL is ON, but there is none: CUDA ${ADAACT_WITH_CUDA}, "
    "NCCL_INCLUDE_DIR ${NCCL_INCLUDE_DIR}, NCCL_LIBRARY ${NCCL_LIBRARY}")
else()
  message(STATUS "NCCL: none")
endif()
