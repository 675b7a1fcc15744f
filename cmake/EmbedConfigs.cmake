# adaact_embed_configs(<variable>)
#
# Writes a source with the text of configs/*.json, for src/experiments/paper/embedded_configs.h, and sets the
# variable to its path. The paper's hyperparameters stand in those files alone; the tool is installed
# without them. A file that is changed, added or removed makes CMake write the source anew.
function(adaact_embed_configs variable)
  file(GLOB configs CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/configs/*.json")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${configs})
  set(ADAACT_CONFIG_ENTRIES "")
  foreach(config IN LISTS configs)
    get_filename_component(name "${config}" NAME_WE)
    file(READ "${config}" text)
    string(APPEND ADAACT_CONFIG_ENTRIES "      {\"${name}\", R\"json(${text})json\"},\n")
  endforeach()
  set(source "${PROJECT_BINARY_DIR}/generated/embedded_configs.cpp")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/embedded_configs.cpp.in" "${source}" @ONLY)
  # A unity build takes the sources of a room of src/ together, and this one is of none. It uses nothing of
  # LibTorch.
  set_source_files_properties("${source}" PROPERTIES
    SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
  set(${variable} "${source}" PARENT_SCOPE)
endfunction()
