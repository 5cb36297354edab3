# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# warpfold_absl, warpfold_grpc: the packaged libraries, shared, or static with WARPFOLD_STATIC. gRPC's
# packaged CMake targets name only the shared libraries, so the static ones are found with pkg-config.
find_package(Threads REQUIRED)
# Newer releases of protobuf have their own CMake package, which gRPC's package then asks for.
find_package(Protobuf CONFIG QUIET)
if(NOT Protobuf_FOUND)
  find_package(Protobuf REQUIRED)
endif()
find_package(absl CONFIG REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(PkgConfig REQUIRED)

set(WARPFOLD_ABSL_MODULES
  base bind_front cleanup cord crc32c flags flags_parse flags_usage flat_hash_map flat_hash_set
  log log_globals log_initialize log_sink log_sink_registry
  random_random status statusor str_format strings synchronization time)

# Collects into `out` the archives behind a pkg-config module, each name once.
function(warpfold_static_archives out)
  execute_process(
    COMMAND ${PKG_CONFIG_EXECUTABLE} --static --libs-only-l ${ARGN}
    OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  list(REMOVE_DUPLICATES flags)
  set(archives)
  foreach(flag IN LISTS flags)
    string(REGEX REPLACE "^-l" "" name "${flag}")
    if(name MATCHES "^(dl|pthread|rt|m|atomic)$" OR NOT flag MATCHES "^-l")
      continue()
    endif()
    find_library(WARPFOLD_ARCHIVE_${name} NAMES lib${name}.a REQUIRED)
    mark_as_advanced(WARPFOLD_ARCHIVE_${name})
    list(APPEND archives ${WARPFOLD_ARCHIVE_${name}})
  endforeach()
  set(${out} ${archives} PARENT_SCOPE)
endfunction()

add_library(warpfold_absl INTERFACE)
add_library(warpfold_grpc INTERFACE)
set(modules)
set(absl_targets)
foreach(module IN LISTS WARPFOLD_ABSL_MODULES)
  if(TARGET absl::${module})
    list(APPEND modules absl_${module})
    list(APPEND absl_targets absl::${module})
  endif()
endforeach()
set(grpc_targets gRPC::grpc++ protobuf::libprotobuf)
# gRPC's service about itself, only for the server.
add_library(warpfold_channelz INTERFACE)
if(WARPFOLD_STATIC)
  warpfold_static_archives(absl_archives ${modules})
  warpfold_static_archives(grpc_archives grpc++ protobuf)
  find_library(WARPFOLD_ARCHIVE_grpcpp_channelz NAMES libgrpcpp_channelz.a REQUIRED)
  mark_as_advanced(WARPFOLD_ARCHIVE_grpcpp_channelz)
  # The archives refer to each other in both directions; a group lets the linker look again. A program that
  # uses the installed client library links the distribution's shared libraries, however it was built here.
  set(grpc_and_absl ${grpc_archives} ${absl_archives})
  list(REMOVE_DUPLICATES grpc_and_absl)
  set(absl_group "$<LINK_GROUP:RESCAN,${absl_archives}>" Threads::Threads)
  set(grpc_group "$<LINK_GROUP:RESCAN,${grpc_and_absl}>" Threads::Threads dl rt)
  target_link_libraries(warpfold_absl INTERFACE
    "$<BUILD_INTERFACE:${absl_group}>" "$<INSTALL_INTERFACE:${absl_targets}>")
  # This is a target, whose dependencies CMake knows: given only by its path, it might come after the archives
  # of gRPC.
  add_library(warpfold_channelz_archive STATIC IMPORTED)
  set_target_properties(warpfold_channelz_archive PROPERTIES
    IMPORTED_LOCATION ${WARPFOLD_ARCHIVE_grpcpp_channelz})
  target_link_libraries(warpfold_channelz_archive INTERFACE warpfold_grpc)
  target_link_libraries(warpfold_channelz INTERFACE warpfold_channelz_archive)
  target_link_libraries(warpfold_grpc INTERFACE
    "$<BUILD_INTERFACE:${grpc_group}>" "$<INSTALL_INTERFACE:${grpc_targets}>")
else()
  target_link_libraries(warpfold_absl INTERFACE ${absl_targets})
  target_link_libraries(warpfold_channelz INTERFACE gRPC::grpcpp_channelz)
  target_link_libraries(warpfold_grpc INTERFACE ${grpc_targets})
endif()
target_link_libraries(warpfold_grpc INTERFACE warpfold_absl)
target_link_libraries(warpfold_channelz INTERFACE warpfold_grpc)
