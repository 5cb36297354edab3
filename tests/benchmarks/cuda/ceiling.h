// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The best that the memory gives: kernels that read everything with 16-byte loads, in several grids, and
// write nothing.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

#include "tests/benchmarks/rounds.h"

namespace warpfold::benchmarks {

// Variants under the key "ceiling" that read `bytes`, a multiple of 16 (the rest is left out).
std::vector<Contender> ReadCeilings(std::size_t bytes, cudaStream_t stream);

// Launches a kernel that does nothing.
void LaunchEmpty(cudaStream_t stream);

}  // namespace warpfold::benchmarks
