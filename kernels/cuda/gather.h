// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernel that brings scattered bytes of the host together in device memory. There is no abseil in here,
// because nvcc compiles it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/tuning.h"

namespace warpfold::kernels::cuda {

// The unit that a block moves at a time: 1 to kTileBytes bytes from anywhere to anywhere.
struct Tile {
  const std::byte* from;  // memory that the device can read; at any alignment
  std::uint64_t to;       // byte of the target
  std::uint64_t byte_count;
};

// Copies each tile to its place in `target`, which is 16-byte aligned. Reads whole aligned 16-byte vectors:
// up to 15 bytes before and after a tile are read, too, and ignored. `tiles` (device or mapped memory) must
// stay until the stream has reached that point. Returns cudaGetLastError().
cudaError_t LaunchGather(const Tile* tiles, std::size_t tile_count, std::byte* target, cudaStream_t stream);

}  // namespace warpfold::kernels::cuda
