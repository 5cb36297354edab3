// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A balanced tree, in registers, over states that come one after the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/vocabulary.h"

namespace warpfold::kernels::cuda {

// Adds state number `i` of a sequence of 2^levels to a balanced tree. As in a binary counter, each carry
// combines two complete subtrees of the same size: waiting[l] holds the subtree of 2^l states that has no
// right sibling yet. Returns the combined state, which after the last call is the state of the whole tree.
// join(left, right, l) combines two states of 2^l each.
template <std::size_t kMaxLevels, class State, class Join>
__device__ __forceinline__ State PairUp(State state, std::uint32_t i, std::uint32_t levels,
                                        State (&waiting)[kMaxLevels], const Join& join) {
  bool pairs = true;  // no break below: the loop must unroll for `waiting` to stay in registers
#pragma unroll
  for (std::uint32_t l = 0; l < kMaxLevels; ++l) {
    if (!pairs || l >= levels) continue;
    pairs = (i >> l) % 2 == 1;
    if (pairs) {
      state = join(waiting[l], state, l);
    } else {
      waiting[l] = state;
    }
  }
  return state;
}

}  // namespace warpfold::kernels::cuda
