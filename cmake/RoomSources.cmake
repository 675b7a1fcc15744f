# adaact_room_sources(<variable> <room>...)
#
# All sources of these folders of src/ and of those within them. A source that only a build with CUDA can
# compile is a .cu or ends in _cuda.cpp. One that ends in _without_cuda.cpp stands in for it in the others.
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
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()
