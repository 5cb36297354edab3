// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/probe.h"

namespace warpfold::kernels::cuda {
namespace {

// Compiled for the same architectures as all other kernels.
__global__ void Probe() {}

}  // namespace

cudaError_t FindKernels() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, Probe);
}

}  // namespace warpfold::kernels::cuda
