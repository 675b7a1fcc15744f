# Debian packages, for `make deb`: libadaact0.1 with the shared libraries, libadaact-dev to build against them,
# adaact with the tool. The preset `deb` builds what goes into them.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME adaact)
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # it would come before the description of each
set(CPACK_PACKAGE_CONTACT "The adaact authors <adaact@localhost>")
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}/packages")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL libraries development tool)
set(CPACK_DEB_COMPONENT_INSTALL ON)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# What the programs link is what they depend on; the libraries of one of these packages are found in another.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY "=")

set(library_package "libadaact${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
set(same_version "(= ${PROJECT_VERSION}-1)")

set(CPACK_DEBIAN_LIBRARIES_PACKAGE_NAME "${library_package}")
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_SECTION libs)
# LibTorch only recommends a BLAS and has the reference one without it, a tenth as fast.
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_RECOMMENDS libopenblas0-openmp)
set(CPACK_DEBIAN_LIBRARIES_DESCRIPTION "activation-based optimizers for LibTorch: shared libraries
AdaAct, Adan, LAMB, SAM, FOOF and KFAC for models of LibTorch, and a laboratory that trains
image classifiers with them.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libadaact-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${library_package} ${same_version}, libtorch-dev")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "cmake, g++")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "activation-based optimizers for LibTorch: to build programs
Headers of the optimizers and of the laboratory, and a CMake package: find_package(adaact).")

set(CPACK_DEBIAN_TOOL_PACKAGE_NAME adaact)
set(CPACK_DEBIAN_TOOL_PACKAGE_SECTION science)
set(CPACK_DEBIAN_TOOL_PACKAGE_DEPENDS "${library_package} ${same_version}")
set(CPACK_DEBIAN_TOOL_PACKAGE_RECOMMENDS "gnuplot-nox")
set(CPACK_DEBIAN_TOOL_PACKAGE_SUGGESTS "dataset-fashion-mnist, bash-completion")
set(CPACK_DEBIAN_TOOL_DESCRIPTION "trains, measures and compares with activation-based optimizers
Trains image classifiers with any of nine optimizers, goes on after a kill, draws reports,
exports models as TorchScript and safetensors.")

# A Debian package says under what licence it is.
install(FILES LICENSE DESTINATION "share/doc/${library_package}" RENAME copyright COMPONENT libraries)
install(FILES LICENSE DESTINATION share/doc/libadaact-dev RENAME copyright COMPONENT development)
install(FILES LICENSE DESTINATION share/doc/adaact RENAME copyright COMPONENT tool)

include(CPack)
