# adaact_room_sources(<variable> <room>...)
#
# All sources of these folders of src/ and of those within them. A source that only a build with CUDA can
# compile is a .cu or ends in _cuda.cpp.
function(adaact_room_sources variable)
  set(sources)
  foreach(room IN LISTS ARGN)
    file(GLOB_RECURSE of_room CONFIGURE_DEPENDS
      "${PROJECT_SOURCE_DIR}/src/${room}/*.cpp" "${PROJECT_SOURCE_DIR}/src/${room}/*.cu")
    list(APPEND sources ${of_room})
  endforeach()
  if(NOT ADAACT_WITH_CUDA)
    list(FILTER sources EXCLUDE REGEX "(\\.cu|_cuda\\.cpp)$")
  endif()
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()
