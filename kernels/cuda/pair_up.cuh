// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A balanced tree over states that come one after the other, in registers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/vocabulary.h"

namespace warpfold::kernels::cuda {

// Takes state number `i` of 2^levels. It is combined with its neighbour, the pair with the pair before it,
// and so on, as a binary counter carries: waiting[l] is the state of 2^l that have no partner yet. Returns
// what came of it, which behind the last one is the state of all. join(left, right, l) combines two states of
// 2^l each.
template <std::size_t kMostLevels, class State, class Join>
__device__ __forceinline__ State PairUp(State state, std::uint32_t i, std::uint32_t levels,
                                        State (&waiting)[kMostLevels], const Join& join) {
  bool pairs = true;  // no break below: the loop must unroll for `waiting` to stay in registers
#pragma unroll
  for (std::uint32_t l = 0; l < kMostLevels; ++l) {
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
