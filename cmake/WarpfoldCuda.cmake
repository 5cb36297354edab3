# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# Sets WARPFOLD_HAVE_CUDA and enables the CUDA language where WARPFOLD_CUDA asks for it. Looks for nvcc on
# the PATH and where NVIDIA's packages put it.
set(WARPFOLD_HAVE_CUDA FALSE)
if(WARPFOLD_CUDA STREQUAL "ON" OR WARPFOLD_CUDA STREQUAL "AUTO")
  if(NOT DEFINED ENV{CUDACXX})
    find_program(CMAKE_CUDA_COMPILER nvcc PATHS /usr/local/cuda/bin)
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
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
    set(WARPFOLD_HAVE_CUDA TRUE)
  elseif(WARPFOLD_CUDA STREQUAL "ON")
    message(FATAL_ERROR "WARPFOLD_CUDA=ON, but there is no CUDA compiler (nvcc)")
  endif()
elseif(NOT WARPFOLD_CUDA STREQUAL "OFF")
  message(FATAL_ERROR "WARPFOLD_CUDA must be ON, OFF or AUTO, not '${WARPFOLD_CUDA}'")
endif()

if(WARPFOLD_HAVE_CUDA)
  message(STATUS "cuda backend: built for ${CMAKE_CUDA_ARCHITECTURES}, with ${CMAKE_CUDA_COMPILER}")
else()
  message(STATUS "cuda backend: not built")
endif()
