// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What blocks of the textbook have in common: how many threads they have, and where their cells are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/vocabulary.h"
#include "kernels/geometry.h"

namespace warpfold::kernels::cuda::textbook {

// Cells take this much of the 48 KiB that a block may have by default: padding and results need some.
inline constexpr std::size_t kCellBytes = 32 << 10;

// How many threads a block has: a power of two, `most` if `cells_per_thread` states for each of them fit in
// shared memory.
template <class State>
constexpr int ThreadsFor(int most, int cells_per_thread = 1) {
  static_assert(32 * sizeof(State) <= kCellBytes, "some blocks are whole warps");
  int threads = most;
  while (threads * cells_per_thread * sizeof(State) > kCellBytes) threads /= 2;
  return threads;
}

// Shared memory for kCells states. Each kernel has one such array of each size: a second call returns the
// same memory. (It is not a plain array of State, which would run constructors.)
template <class State, int kCells>
__device__ __forceinline__ State* SharedCells() {
  WARPFOLD_SHARED(std::byte, cells, [kCells * sizeof(State)]);
  return reinterpret_cast<State*>(cells);
}

}  // namespace warpfold::kernels::cuda::textbook
