# Compiling several sources as one, as CMAKE_UNITY_BUILD=ON asks for. LibTorch's headers take ten
# times as long as the usual source here, so that a full build takes a fraction of the time; after a
# change to one file it takes longer. For builds that are made once: .ci/run, scripts/lint.sh.

# adaact_unite_by_folder(<target>)
#
# Sources of one room, a folder of src/ with those within it, become one. By room and not by number:
# which names must differ then does not depend on how many files there are.
function(adaact_unite_by_folder target)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    if(source MATCHES "\\.cpp$")
      get_filename_component(folder "${source}" DIRECTORY)
      file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}/src" "${folder}")
      string(REGEX REPLACE "^([a-z]+)/.*$" "\\1" room "${folder}")
      string(MAKE_C_IDENTIFIER "${room}" room)
      set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${room}")
    elseif(source MATCHES "\\.cu$")
      set_source_files_properties("${source}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD_MODE GROUP
    UNITY_BUILD_CODE_BEFORE_INCLUDE "// NOLINTNEXTLINE(bugprone-suspicious-include)")
endfunction()
