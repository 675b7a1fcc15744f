# Installs the libraries, their headers, the tool and a CMake package for find_package(adaact), of which
# the laboratory is a component.
include(CMakePackageConfigHelpers)

set(ADAACT_INSTALL_CMAKEDIR "${CMAKE_INSTALL_LIBDIR}/cmake/adaact")

function(adaact_install_target target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "EXPORT" "")
  if(arg_EXPORT)
    set(export EXPORT ${arg_EXPORT})
  endif()
  install(TARGETS ${target} ${export}
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endfunction()

adaact_install_target(adaact EXPORT adaactTargets)
install(EXPORT adaactTargets NAMESPACE adaact:: DESTINATION "${ADAACT_INSTALL_CMAKEDIR}")
set(left_out)
if(ADAACT_BUILD_LAB)
  adaact_install_target(adaact_lab EXPORT adaactLabTargets)
  install(EXPORT adaactLabTargets NAMESPACE adaact:: DESTINATION "${ADAACT_INSTALL_CMAKEDIR}")
  # Where its LibTorch is, which need not be where the system looks. CMake itself would leave out a
  # LibTorch that lies within this project's folder.
  set_target_properties(adaact_tool PROPERTIES
    INSTALL_RPATH "$<TARGET_FILE_DIR:torch>"
    INSTALL_RPATH_USE_LINK_PATH ON)
  adaact_install_target(adaact_tool)
else()
  set(left_out REGEX "/adaact/(data|models|train|report)$" EXCLUDE)
endif()
install(DIRECTORY include/ DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" ${left_out})

configure_package_config_file(cmake/adaactConfig.cmake.in adaactConfig.cmake
  INSTALL_DESTINATION "${ADAACT_INSTALL_CMAKEDIR}"
  NO_SET_AND_CHECK_MACRO)
# Below 1.0 a minor version may change the interface.
write_basic_package_version_file(adaactConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  "${CMAKE_CURRENT_BINARY_DIR}/adaactConfig.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/adaactConfigVersion.cmake"
  cmake/FindWebP.cmake
  DESTINATION "${ADAACT_INSTALL_CMAKEDIR}")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
