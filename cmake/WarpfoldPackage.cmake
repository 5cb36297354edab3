# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# Debian packages of a release build: `cpack --config build/release/CPackConfig.cmake`. There is one for each
# component: warpfold-server, warpfold (the command line) and libwarpfold-dev.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME warpfold)
set(CPACK_PACKAGE_VENDOR "The Warpfold Authors")
set(CPACK_PACKAGE_CONTACT "The Warpfold Authors <authors@warpfold.invalid>")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_COMPONENTS_ALL server client dev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SECTION net)

set(CPACK_DEBIAN_SERVER_PACKAGE_NAME warpfold-server)
string(CONCAT CPACK_COMPONENT_SERVER_DESCRIPTION
  "gRPC service that reduces arrays on a GPU, or on the CPU with the same bits\n"
  "Runs under systemd as the user warpfold. Needs NVIDIA's driver to use a GPU.")
# For useradd; deb-systemd-helper is in an essential package.
set(CPACK_DEBIAN_SERVER_PACKAGE_DEPENDS passwd)
set(CPACK_DEBIAN_SERVER_PACKAGE_RECOMMENDS warpfold)
set(control ${CMAKE_SOURCE_DIR}/deploy/debian)
set(CPACK_DEBIAN_SERVER_PACKAGE_CONTROL_EXTRA ${control}/postinst ${control}/prerm ${control}/postrm)

set(CPACK_DEBIAN_CLIENT_PACKAGE_NAME warpfold)
string(CONCAT CPACK_COMPONENT_CLIENT_DESCRIPTION
  "command line of Warpfold\n"
  "Reduces files and generated arrays on a Warpfold server, and measures servers.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libwarpfold-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
string(CONCAT CPACK_COMPONENT_DEV_DESCRIPTION
  "client library of Warpfold for C++, and the protocol\n"
  "Headers, archives, CMake and pkg-config files, .proto files.")
# The headers that protoc generates are for one release of protobuf; the other packages are what gRPC's CMake
# files ask for.
string(REGEX MATCH "^[0-9]+\\.[0-9]+" protobuf_release ${Protobuf_VERSION})
string(CONCAT CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
  "libabsl-dev, libc-ares-dev, libgrpc++-dev, libprotobuf-dev (>= ${protobuf_release}), libre2-dev, "
  "libssl-dev, zlib1g-dev")
set(CPACK_DEBIAN_DEV_PACKAGE_RECOMMENDS "protobuf-compiler, protobuf-compiler-grpc")
include(CPack)
