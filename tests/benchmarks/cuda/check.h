// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A benchmark has nobody to whom it could hand an error: it reports what failed and ends the process.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

namespace warpfold::benchmarks {

inline void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

}  // namespace warpfold::benchmarks
