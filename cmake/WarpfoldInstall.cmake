# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# What `cmake --install` installs, in components: server (the service), client (the command line) and dev (the
# client library for C++ programs, and the protocol). docs/operating.md and client/examples are for those who
# use them.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# The headers that a program includes, as "warpfold/client.h"; none of them includes one that is not here. In
# this tree they are "client/client.h", which is too common a name for a system's include folder
# (docs/adr/0050).
set(public_headers
  client/array client/array_reference client/client client/error client/operators client/options
  client/partial_state client/result client/segments client/shared_memory client/tune_grpc client/writer
  proto/element_type proto/error_reasons proto/leaf)
set(staged ${CMAKE_BINARY_DIR}/include)
foreach(header IN LISTS public_headers)
  set(source ${CMAKE_SOURCE_DIR}/${header}.h)
  get_filename_component(name ${header} NAME)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  file(READ ${source} text)
  string(REGEX MATCHALL "#include \"(client|proto)/[a-z_]+" included "${text}")
  list(TRANSFORM included REPLACE "#include \"" "")
  list(REMOVE_ITEM included ${public_headers})
  if(included)
    message(FATAL_ERROR "${header}.h is installed, but includes ${included}, which is not: "
      "make it public in cmake/WarpfoldInstall.cmake, or do without it")
  endif()
  string(REGEX REPLACE "#include \"(client|proto)/" "#include \"warpfold/" text "${text}")
  file(GENERATE OUTPUT ${staged}/warpfold/${name}.h CONTENT "${text}")
  install(FILES ${staged}/warpfold/${name}.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/warpfold COMPONENT dev)
endforeach()

# The protocol: `protoc -I PREFIX/include warpfold/v1/reduction.proto`. It also has its messages in C++, one
# of which Client::GetServerInfo returns.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/proto/warpfold/v1 ${CMAKE_BINARY_DIR}/proto/warpfold/v1
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/warpfold COMPONENT dev
  FILES_MATCHING PATTERN *.proto PATTERN *.pb.h PATTERN *.grpc.pb.h EXCLUDE)

foreach(part client proto grpc absl)
  set_target_properties(warpfold_${part} PROPERTIES EXPORT_NAME ${part})
endforeach()
target_compile_features(warpfold_client PUBLIC cxx_std_20)
install(TARGETS warpfold_client warpfold_proto warpfold_grpc warpfold_absl EXPORT warpfold
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/warpfold)
install(EXPORT warpfold NAMESPACE warpfold:: FILE warpfoldTargets.cmake
  DESTINATION ${config_folder} COMPONENT dev)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/warpfoldConfig.cmake.in
  ${CMAKE_BINARY_DIR}/warpfoldConfig.cmake INSTALL_DESTINATION ${config_folder}
  NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# Before version 1.0, a minor version may change what a program sees (docs/versioning.md).
write_basic_package_version_file(${CMAKE_BINARY_DIR}/warpfoldConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/warpfoldConfig.cmake ${CMAKE_BINARY_DIR}/warpfoldConfigVersion.cmake
  DESTINATION ${config_folder} COMPONENT dev)

set(pkg_config_modules grpc++ protobuf ${modules})
list(JOIN pkg_config_modules " " WARPFOLD_PKG_CONFIG_REQUIRES)
file(RELATIVE_PATH WARPFOLD_PKG_CONFIG_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_SOURCE_DIR}/cmake/warpfold.pc.in ${CMAKE_BINARY_DIR}/warpfold.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/warpfold.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

install(TARGETS warpfold-server RUNTIME COMPONENT server)
install(TARGETS warpfold RUNTIME COMPONENT client)
# systemd looks in lib/systemd of /usr and of /usr/local, whatever the distribution's folder of libraries is.
install(FILES ${CMAKE_SOURCE_DIR}/deploy/systemd/warpfold-server.service
  DESTINATION lib/systemd/system COMPONENT server)

# Manual pages and completions say what the executables' --help says.
find_package(Python3 COMPONENTS Interpreter REQUIRED)
set(pages ${CMAKE_BINARY_DIR}/pages)
add_custom_command(OUTPUT ${pages}/warpfold.1 ${pages}/warpfold-server.8 ${pages}/bash ${pages}/_warpfold
  COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/deploy/command_pages.py
    $<TARGET_FILE:warpfold-server> $<TARGET_FILE:warpfold> ${PROJECT_VERSION} ${pages}
  DEPENDS warpfold-server warpfold ${CMAKE_SOURCE_DIR}/deploy/command_pages.py VERBATIM)
add_custom_target(command_pages ALL DEPENDS ${pages}/warpfold.1)
install(FILES ${pages}/warpfold-server.8 DESTINATION ${CMAKE_INSTALL_MANDIR}/man8 COMPONENT server)
install(FILES ${pages}/warpfold.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT client)
# Shells look for a file of the command's name, so the server's file is a second copy of the first.
install(FILES ${pages}/bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  RENAME warpfold COMPONENT client)
install(FILES ${pages}/bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  RENAME warpfold-server COMPONENT server)
install(FILES ${pages}/_warpfold DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT client)

# The licence, at the place where Debian's packages have it. Each component is a separate package:
# docs/adr/0051.
foreach(component_package server=warpfold-server client=warpfold dev=libwarpfold-dev)
  string(REPLACE "=" ";" pair ${component_package})
  list(GET pair 0 component)
  list(GET pair 1 package)
  install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package}
    RENAME copyright COMPONENT ${component})
endforeach()
include(WarpfoldPackage)
