# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# warpfold_options: the flags of all our targets.
find_program(CCACHE ccache)
if(CCACHE)
  # Without the sloppiness, ccache keeps nothing that involves precompiled headers. Paths are relative, so
  # that any checkout's build, and the container's, finds what another one has left.
  set(warpfold_launcher
    env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${warpfold_launcher})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${warpfold_launcher})
endif()

add_library(warpfold_options INTERFACE)
target_include_directories(warpfold_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(warpfold_options INTERFACE
  # Host and device must round alike: no fused multiply-add that the source does not spell out.
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror>)

if(WARPFOLD_SANITIZE)
  # The check of virtual tables uses a pipe to find out whether memory can be read, so a process without free
  # descriptors, as in some tests, fails it. With sanitizers GCC also takes members of the C++ library's own
  # regular expressions for uninitialized.
  target_compile_options(warpfold_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${WARPFOLD_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all -fno-sanitize=vptr>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-maybe-uninitialized>)
  target_link_options(warpfold_options INTERFACE -fsanitize=${WARPFOLD_SANITIZE})
endif()

if(WARPFOLD_STATIC)
  # Functions that nobody calls are left out, for which each has its own section. The addresses that the
  # loader relocates are packed, which glibc 2.36 can read. That saves 2 of the 32 MB of a server with code
  # for GPUs.
  include(CheckLinkerFlag)
  check_linker_flag(CXX LINKER:-z,pack-relative-relocs WARPFOLD_LINKER_PACKS_RELOCATIONS)
  target_compile_options(warpfold_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-ffunction-sections -fdata-sections>)
  target_link_options(warpfold_options INTERFACE -static-libstdc++ -static-libgcc LINKER:--gc-sections
    $<$<BOOL:${WARPFOLD_LINKER_PACKS_RELOCATIONS}>:LINKER:-z,pack-relative-relocs>)
endif()

# Compiles the sources of `target` in batches, each as if it were one file: headers are read once for a batch
# (docs/adr/0108). Builds without precompiled headers compile each source by itself, and so find names that
# two sources of a batch share by chance, and includes that one of them lacks.
function(warpfold_batches target)
  if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  endif()
endfunction()
