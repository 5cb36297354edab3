// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/compiled_for.h"

namespace warpfold::kernels::cuda {
namespace {

// Compiled for what all others are.
__global__ void Probe() {}

}  // namespace

cudaError_t CompiledArchitecture(int* architecture) {
  cudaFuncAttributes attributes;
  const cudaError_t error = cudaFuncGetAttributes(&attributes, Probe);
  *architecture = error == cudaSuccess ? attributes.ptxVersion : 0;
  return error;
}

}  // namespace warpfold::kernels::cuda
