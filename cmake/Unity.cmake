# Compiling several sources as one, which CMAKE_UNITY_BUILD=OFF turns off. LibTorch's headers take ten
# times as long as the usual source here, so a full build takes a fraction of the time. After a change to
# one file its room is compiled again, which takes longer than the file: the preset dev is for that.

# Rooms that are compiled as one, so that LibTorch's headers are parsed for all of them once. Their sizes
# are about equal, so that two cores are done at about the same time.
set(ADAACT_UNITED_ROOMS_core kernels ranks observe moments io)
set(ADAACT_UNITED_ROOMS_training layers models train)
set(ADAACT_UNITED_ROOMS_pages report sweep experiments)

# adaact_unite_by_room(<target>)
#
# Sources of united rooms become one; so do those of any other room, a folder of src/ with those within it,
# and those of any other folder. By room and not by number: which names must differ then does not depend on
# how many files there are.
function(adaact_unite_by_room target)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    if(source MATCHES "\\.cpp$")
      get_filename_component(folder "${source}" DIRECTORY)
      file(RELATIVE_PATH room "${PROJECT_SOURCE_DIR}" "${folder}")
      string(REGEX REPLACE "^src/([a-z]+).*$" "\\1" room "${room}")
      foreach(united core training pages)
        if(room IN_LIST ADAACT_UNITED_ROOMS_${united})
          set(room ${united})
          break()
        endif()
      endforeach()
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
