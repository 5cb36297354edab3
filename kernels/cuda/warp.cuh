// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Shuffles of states, which may be of any size.
#pragma once

#include <cstdint>
#include <cstring>

namespace warpfold::kernels::cuda {

inline constexpr unsigned kFullWarp = 0xffffffffu;

template <class State, class ShuffleWord>
__device__ __forceinline__ State ShuffleWords(const State& state, ShuffleWord shuffle) {
  constexpr int kWords = (sizeof(State) + 3) / 4;
  std::uint32_t words[kWords] = {};
  std::memcpy(words, &state, sizeof state);
#pragma unroll
  for (int i = 0; i < kWords; ++i) words[i] = shuffle(words[i]);
  State result;
  std::memcpy(&result, words, sizeof result);
  return result;
}

// The state of lane ^ mask. All lanes take part.
template <class State>
__device__ __forceinline__ State ShuffleXor(const State& state, int mask) {
  return ShuffleWords(state, [mask](std::uint32_t w) { return __shfl_xor_sync(kFullWarp, w, mask); });
}

// The state of lane + distance; the own one where there is no such lane.
template <class State>
__device__ __forceinline__ State ShuffleDown(const State& state, int distance) {
  return ShuffleWords(state,
                      [distance](std::uint32_t w) { return __shfl_down_sync(kFullWarp, w, distance); });
}

// The state of lane `source`.
template <class State>
__device__ __forceinline__ State Broadcast(const State& state, int source) {
  return ShuffleWords(state, [source](std::uint32_t w) { return __shfl_sync(kFullWarp, w, source); });
}

}  // namespace warpfold::kernels::cuda
