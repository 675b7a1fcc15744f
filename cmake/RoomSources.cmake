# adaact_room_sources(<variable> <room>...)
#
# All sources of these folders of src/ and of those within them. A source that only a build with CUDA can
# compile is a .cu or ends in _cuda.cpp. One that ends in _without_cuda.cpp stands in for it in the others. In
# the same way sources that begin with mpi_ need MPI, but for mpi_without.cpp, which stands in for them, and those that
# begin with nccl_ or nvjpeg_ need NCCL or nvJPEG.
function(adaact_room_sources variable)
  set(sources)
  foreach(room IN LISTS ARGN)
    file(GLOB_RECURSE of_room CONFIGURE_DEPENDS
      "${PROJECT_SOURCE_DIR}/src/${room}/*.cpp" "${PROJECT_SOURCE_DIR}/src/${room}/*.cu")
    list(APPEND sources ${of_room})
  endforeach()
  if(ADAACT_WITH_CUDA)
    list(FILTER sources EXCLUDE REGEX "_without_cuda\\.cpp$")
  else()
    set(stand_ins ${sources})
    list(FILTER stand_ins INCLUDE REGEX "_without_cuda\\.cpp$")
    list(FILTER sources EXCLUDE REGEX "(\\.cu|_cuda\\.cpp)$")
    list(APPEND sources ${stand_ins})
  endif()
  foreach(library mpi nccl nvjpeg)
    string(TOUPPER ${library} upper)
    if(ADAACT_WITH_${upper})
      list(FILTER sources EXCLUDE REGEX "/${library}_without\\.cpp$")
    else()
      set(stand_ins ${sources})
      list(FILTER stand_ins INCLUDE REGEX "/${library}_without\\.cpp$")
      list(FILTER sources EXCLUDE REGEX "/${library}_[a-z_]+\\.cpp$")
      list(APPEND sources ${stand_ins})
    endif()
  endforeach()
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()

# adaact_take_loops(<sources> <loops>)
#
# Moves the sources that have loops over numbers, those that include kernels/cpu_dispatch.h, from one list
# to the other.
function(adaact_take_loops sources loops)
  set(with_loops)
  set(others)
  foreach(source IN LISTS ${sources})
    file(STRINGS "${source}" dispatch REGEX "^#include \"kernels/cpu_dispatch.h\"$")
    if(dispatch AND source MATCHES "\\.cpp$")
      list(APPEND with_loops "${source}")
    else()
      list(APPEND others "${source}")
    endif()
  endforeach()
  set(${sources} ${others} PARENT_SCOPE)
  set(${loops} ${with_loops} PARENT_SCOPE)
endfunction()
