// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How many blocks there are in a grid that does not grow with the array: its threads go on to the next items
// until there are none.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/textbook/launch.h"

namespace warpfold::kernels::cuda::textbook {

// As many threads as a multiprocessor of an A100, H100 or H200 holds at once: two blocks of 1,024, or eight
// of 256. GPUs of compute capability 7.5 hold 1,024, and those of 8.6, 8.9 and 12.0 hold 1,536: there some
// blocks wait for others to end.
inline constexpr unsigned kThreadsPerMultiprocessor = 2048;

// The number of blocks of `threads` that all multiprocessors hold, but no more than have something to do if a
// block takes `items_per_block` of the `count` items at a time.
inline unsigned FixedGrid(const Workspace& workspace, std::uint64_t count, unsigned threads,
                          std::uint64_t items_per_block) {
  const std::uint64_t useful = (count + items_per_block - 1) / items_per_block;
  const std::uint64_t held = std::uint64_t{kThreadsPerMultiprocessor / threads} * workspace.multiprocessors;
  return static_cast<unsigned>(std::min(useful, held));
}

}  // namespace warpfold::kernels::cuda::textbook
