# nvJPEG, by which a GPU decodes JPEGs. Without it src/data/nvjpeg_without.cpp says that there is none.
#
#   ADAACT_NVJPEG=AUTO   take one that is there, in a build with CUDA
#   ADAACT_NVJPEG=ON     fail without one
#   ADAACT_NVJPEG=OFF    do not look for one
#
# Sets ADAACT_WITH_NVJPEG, NVJPEG_INCLUDE_DIR and NVJPEG_LIBRARY.

set(ADAACT_NVJPEG AUTO CACHE STRING "nvJPEG for decoding JPEGs on a GPU: AUTO, ON or OFF")
set_property(CACHE ADAACT_NVJPEG PROPERTY STRINGS AUTO ON OFF)

set(ADAACT_WITH_NVJPEG OFF)
if(NOT ADAACT_NVJPEG STREQUAL "OFF" AND ADAACT_WITH_CUDA)
  # The one beside a LibTorch from PyPI first, which is for the same CUDA: for CUDA 13 all packages share a folder, for
  # CUDA 12 each has its own.
  get_filename_component(site_packages "${ADAACT_TORCH_DIR}/../../../.." ABSOLUTE)
  get_filename_component(cuda "${CMAKE_CUDA_COMPILER}/../.." ABSOLUTE)
  set(places "${site_packages}/nvidia/cu13" "${site_packages}/nvidia/nvjpeg" "${cuda}")
  string(REGEX MATCH "^[0-9]+" major "${CMAKE_CUDA_COMPILER_VERSION}")
  find_path(NVJPEG_INCLUDE_DIR nvjpeg.h HINTS ${places} PATH_SUFFIXES include)
  find_library(NVJPEG_LIBRARY NAMES nvjpeg "libnvjpeg.so.${major}" NAMES_PER_DIR
    HINTS ${places} PATH_SUFFIXES lib lib64)
  mark_as_advanced(NVJPEG_INCLUDE_DIR NVJPEG_LIBRARY)
  if(NVJPEG_INCLUDE_DIR AND NVJPEG_LIBRARY)
    # Before 12.1 it could not spread colours as libjpeg does.
    file(STRINGS "${NVJPEG_INCLUDE_DIR}/nvjpeg.h" interpolation REGEX "NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION")
    if(interpolation)
      set(ADAACT_WITH_NVJPEG ON)
    endif()
  endif()
endif()
if(ADAACT_WITH_NVJPEG)
  message(STATUS "nvJPEG: ${NVJPEG_LIBRARY}")
elseif(ADAACT_NVJPEG STREQUAL "ON")
  message(FATAL_ERROR "ADAACT_NVJPEG is ON, but there is none of version 12.1 or newer: CUDA ${ADAACT_WITH_CUDA}, "
    "NVJPEG_INCLUDE_DIR ${NVJPEG_INCLUDE_DIR}, NVJPEG_LIBRARY ${NVJPEG_LIBRARY}")
else()
  message(STATUS "nvJPEG: none")
endif()
