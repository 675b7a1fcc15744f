# adaact_embed_page_script(<variable>)
#
# Writes a source with the text of src/report/page_script.js, for src/report/page_script.h, and sets the variable
# to its path: a page holds all that it needs, and the tool is installed without other files.
function(adaact_embed_page_script variable)
  set(script "${PROJECT_SOURCE_DIR}/src/report/page_script.js")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${script}")
  file(READ "${script}" ADAACT_PAGE_SCRIPT)
  set(source "${PROJECT_BINARY_DIR}/generated/page_script.cpp")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/page_script.cpp.in" "${source}" @ONLY)
  # Of no room, as what EmbedConfigs.cmake writes.
  set_source_files_properties("${source}" PROPERTIES
    SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
  set(${variable} "${source}" PARENT_SCOPE)
endfunction()
