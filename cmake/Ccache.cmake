# Compiles through ccache where it is installed and no other launcher was asked for.

find_program(ADAACT_CCACHE ccache)
mark_as_advanced(ADAACT_CCACHE)

if(ADAACT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # ccache refuses a compilation that uses a precompiled header unless told that the header's own
  # macros and its use of __DATE__ and __TIME__ do not matter.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros "${ADAACT_CCACHE}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${ADAACT_CCACHE}")
  set(ADAACT_USES_CCACHE ON)
else()
  set(ADAACT_USES_CCACHE OFF)
endif()
