# Installs the libraries, their headers, the tool and a CMake package for find_package(adaact), of which
# the laboratory is a component. Everything belongs to one of three parts, which make the Debian packages
# (cmake/Packages.cmake): libraries, development, tool.
include(CMakePackageConfigHelpers)

set(ADAACT_INSTALL_CMAKEDIR "${CMAKE_INSTALL_LIBDIR}/cmake/adaact")

# Where a LibTorch is, which need not be where the system looks. CMake itself would leave out a LibTorch that
# lies within this project's folder. A Debian package has no use for it.
set(ADAACT_RUNTIME_PATHS "$ORIGIN;$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$<TARGET_FILE_DIR:torch>")
# Likewise what may have come with it.
foreach(library IN ITEMS NCCL NVJPEG)
  if(ADAACT_WITH_${library})
    get_filename_component(folder "${${library}_LIBRARY}" DIRECTORY)
    list(APPEND ADAACT_RUNTIME_PATHS "${folder}")
  endif()
endforeach()

function(adaact_install_target target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "EXPORT" "")
  if(arg_EXPORT)
    set(export EXPORT ${arg_EXPORT})
  endif()
  set_target_properties(${target} PROPERTIES
    INSTALL_RPATH "${ADAACT_RUNTIME_PATHS}"
    INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS ${target} ${export}
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT libraries NAMELINK_COMPONENT development
    RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT tool)
endfunction()

adaact_install_target(adaact EXPORT adaactTargets)
install(EXPORT adaactTargets NAMESPACE adaact:: DESTINATION "${ADAACT_INSTALL_CMAKEDIR}"
  COMPONENT development)
set(left_out)
if(ADAACT_BUILD_LAB)
  adaact_install_target(adaact_lab EXPORT adaactLabTargets)
  install(EXPORT adaactLabTargets NAMESPACE adaact:: DESTINATION "${ADAACT_INSTALL_CMAKEDIR}"
    COMPONENT development)
  adaact_install_target(adaact_tool)
  if(NOT CMAKE_CROSSCOMPILING)
    install(FILES "${PROJECT_BINARY_DIR}/app/adaact.1"
      DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT tool)
    install(FILES "${PROJECT_BINARY_DIR}/app/adaact.bash"
      DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" RENAME adaact
      COMPONENT tool)
  endif()
else()
  set(left_out REGEX "/adaact/(data|models|train|report)$" EXCLUDE)
endif()
install(DIRECTORY include/ DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT development ${left_out})

configure_package_config_file(cmake/adaactConfig.cmake.in adaactConfig.cmake
  INSTALL_DESTINATION "${ADAACT_INSTALL_CMAKEDIR}"
  NO_SET_AND_CHECK_MACRO)
# Below 1.0 a minor version may change the interface.
write_basic_package_version_file(adaactConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  "${CMAKE_CURRENT_BINARY_DIR}/adaactConfig.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/adaactConfigVersion.cmake"
  cmake/FindWebP.cmake
  DESTINATION "${ADAACT_INSTALL_CMAKEDIR}" COMPONENT development)
