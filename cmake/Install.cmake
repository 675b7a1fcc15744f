# Installs the library, its headers and a CMake package for find_package(adaact).
include(CMakePackageConfigHelpers)

set(ADAACT_INSTALL_CMAKEDIR "${CMAKE_INSTALL_LIBDIR}/cmake/adaact")

install(TARGETS adaact EXPORT adaactTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(DIRECTORY include/ DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT adaactTargets NAMESPACE adaact:: DESTINATION "${ADAACT_INSTALL_CMAKEDIR}")

configure_package_config_file(cmake/adaactConfig.cmake.in adaactConfig.cmake
  INSTALL_DESTINATION "${ADAACT_INSTALL_CMAKEDIR}"
  NO_SET_AND_CHECK_MACRO)
# Below 1.0 a minor version may change the interface.
write_basic_package_version_file(adaactConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  "${CMAKE_CURRENT_BINARY_DIR}/adaactConfig.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/adaactConfigVersion.cmake"
  DESTINATION "${ADAACT_INSTALL_CMAKEDIR}")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
