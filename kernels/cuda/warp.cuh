// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a warp does with states, which may be of any size.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/vocabulary.h"
#include "kernels/operators/portable.h"

namespace warpfold::kernels::cuda {

inline constexpr unsigned kFullWarp = 0xffffffffu;

template <class State>
struct WordsOf {
  using Word = std::conditional_t<sizeof(State) % 8 == 0, std::uint64_t, std::uint32_t>;
  static constexpr int kWords = (sizeof(State) + sizeof(Word) - 1) / sizeof(Word);
};

template <class State, class ShuffleWord>
__device__ __forceinline__ State ShuffleWords(const State& state, ShuffleWord shuffle) {
  if constexpr (std::is_same_v<State, Uint128>) {
    // This uses shifts, because nvcc copies the bytes of an __int128 through memory.
    const auto low = shuffle(static_cast<std::uint64_t>(state));
    const auto high = shuffle(static_cast<std::uint64_t>(state >> 64));
    return Uint128{high} << 64 | low;
  } else {
    typename WordsOf<State>::Word words[WordsOf<State>::kWords] = {};
    std::memcpy(words, &state, sizeof state);
#pragma unroll
    for (int i = 0; i < WordsOf<State>::kWords; ++i) words[i] = shuffle(words[i]);
    State result;
    std::memcpy(&result, words, sizeof result);
    return result;
  }
}

// first ? a : b, word by word. For a class the conditional operator would choose an address, and both states
// would live in memory.
template <class State>
__device__ __forceinline__ State Choose(bool first, const State& a, const State& b) {
  if constexpr (std::is_class_v<State>) {
    using Words = WordsOf<State>;
    typename Words::Word a_words[Words::kWords] = {};
    typename Words::Word b_words[Words::kWords] = {};
    std::memcpy(a_words, &a, sizeof a);
    std::memcpy(b_words, &b, sizeof b);
#pragma unroll
    for (int i = 0; i < Words::kWords; ++i) a_words[i] = first ? a_words[i] : b_words[i];
    State result;
    std::memcpy(&result, a_words, sizeof result);
    return result;
  } else {
    return first ? a : b;
  }
}

// Makes the compiler finish a state, and hold it in registers, before it begins with the code after this.
template <class State>
__device__ __forceinline__ void Pin(State& state) {
  std::uint32_t words[(sizeof(State) + 3) / 4] = {};
  std::memcpy(words, &state, sizeof state);
#pragma unroll
  for (std::uint32_t& word : words) asm volatile("" : "+r"(word));
  std::memcpy(&state, words, sizeof state);
}

// Returns 0, since grids have one row. The compiler does not know that, so it cannot see that a value to
// which this is added stays the same.
__device__ __forceinline__ std::uint32_t OpaqueZero() { return blockIdx.y; }

// The state of lane ^ mask. All lanes take part.
template <class State>
__device__ __forceinline__ State ShuffleXor(const State& state, int mask) {
  return ShuffleWords(state, [mask](auto w) { return __shfl_xor_sync(kFullWarp, w, mask); });
}

// The state of lane + distance; its own state if there is no such lane.
template <class State>
__device__ __forceinline__ State ShuffleDown(const State& state, int distance) {
  return ShuffleWords(state, [distance](auto w) { return __shfl_down_sync(kFullWarp, w, distance); });
}

// The state of lane `source`.
template <class State>
__device__ __forceinline__ State ShuffleFrom(const State& state, int source) {
  return ShuffleWords(state, [source](auto w) { return __shfl_sync(kFullWarp, w, source); });
}

// The largest value of any lane. All lanes take part.
__device__ __forceinline__ std::uint32_t MaxOfWarp(std::uint32_t value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  return __reduce_max_sync(kFullWarp, value);
#else
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    const std::uint32_t other = ShuffleXor(value, mask);
    if (other > value) value = other;
  }
  return value;
#endif
}

}  // namespace warpfold::kernels::cuda
