# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# Sets WARPFOLD_HAVE_CUDA and enables the CUDA language if WARPFOLD_CUDA asks for it. Looks for nvcc on the
# PATH and where NVIDIA's packages put it.
set(WARPFOLD_HAVE_CUDA FALSE)
set(WARPFOLD_OLDEST_NVCC 13.0)

# Sets `out` to the version of an nvcc; to nothing if it is another compiler, or none. This is queried before
# CMake tries the compiler, because an nvcc that does not know C++20 would fail that test.
function(warpfold_nvcc_version nvcc out)
  execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE text ERROR_QUIET RESULT_VARIABLE failed)
  set(${out} "" PARENT_SCOPE)
  if(NOT failed AND text MATCHES "release ([0-9]+\\.[0-9]+)")
    set(${out} ${CMAKE_MATCH_1} PARENT_SCOPE)
  endif()
endfunction()

if(WARPFOLD_CUDA STREQUAL "ON" OR WARPFOLD_CUDA STREQUAL "AUTO")
  if(DEFINED ENV{CUDACXX})
    set(warpfold_nvcc $ENV{CUDACXX})
  else()
    find_program(CMAKE_CUDA_COMPILER nvcc PATHS /usr/local/cuda/bin)
    set(warpfold_nvcc ${CMAKE_CUDA_COMPILER})
  endif()
  warpfold_nvcc_version("${warpfold_nvcc}" warpfold_nvcc_version)
  set(warpfold_too_old "")
  if(warpfold_nvcc_version AND warpfold_nvcc_version VERSION_LESS WARPFOLD_OLDEST_NVCC)
    set(warpfold_too_old ", ${warpfold_nvcc} is of CUDA ${warpfold_nvcc_version}")
  else()
    include(CheckLanguage)
    check_language(CUDA)
  endif()
  if(CMAKE_CUDA_COMPILER AND NOT warpfold_too_old)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80-real 90 CACHE STRING "GPU architectures to compile for")
    endif()
    enable_language(CUDA)
    # CMake 3.25 does not know how nvcc spells C++20.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    # This makes kernels a tenth of the size; the driver unpacks an operator's kernels when the first of them
    # is used.
    add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>)
    set(WARPFOLD_HAVE_CUDA TRUE)
  elseif(WARPFOLD_CUDA STREQUAL "ON")
    message(FATAL_ERROR
      "WARPFOLD_CUDA=ON, but there is no nvcc of CUDA ${WARPFOLD_OLDEST_NVCC} or later${warpfold_too_old}")
  endif()
elseif(NOT WARPFOLD_CUDA STREQUAL "OFF")
  message(FATAL_ERROR "WARPFOLD_CUDA must be ON, OFF or AUTO, not '${WARPFOLD_CUDA}'")
endif()

if(WARPFOLD_HAVE_CUDA)
  message(STATUS "cuda backend: built for ${CMAKE_CUDA_ARCHITECTURES}, with ${CMAKE_CUDA_COMPILER}")
elseif(WARPFOLD_CUDA STREQUAL "OFF")
  message(STATUS "cuda backend: not built")
else()
  message(STATUS
    "cuda backend: not built, there is no nvcc of CUDA ${WARPFOLD_OLDEST_NVCC} or later${warpfold_too_old}")
endif()
