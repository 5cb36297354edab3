// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/benchmarks/cpu/read_loops.h"

#include <cstring>

namespace warpfold::benchmarks {
namespace {

// The compiler's vectors of 16, 32 and 64 bytes.
using Vector128 = std::uint64_t __attribute__((vector_size(16)));
using Vector256 = std::uint64_t __attribute__((vector_size(32)));
using Vector512 = std::uint64_t __attribute__((vector_size(64)));

constexpr std::size_t kCacheLineBytes = 64;

// How a loop proceeds: in `kStreams` places at once, which keeps more of the hardware's prefetchers busy,
// with `kVectors` loads in each; it requests data that lie `kAheadBytes` ahead, if that is not 0.
struct Walk {
  int streams = 1;
  int vectors = 8;
  std::size_t ahead_bytes = 0;
};

template <class Vector, Walk kWalk>
inline __attribute__((always_inline)) std::uint64_t Fold(const std::byte* data, std::size_t bytes) {
  constexpr std::size_t kStep = kWalk.vectors * sizeof(Vector);
  static_assert(kReadStepBytes % (kWalk.streams * kStep) == 0);
  Vector folds[kWalk.streams][kWalk.vectors] = {};
  const std::size_t stream_bytes = bytes / kWalk.streams;
  for (std::size_t offset = 0; offset < stream_bytes; offset += kStep) {
    for (int stream = 0; stream < kWalk.streams; ++stream) {
      const std::byte* from = data + stream * stream_bytes + offset;
      if constexpr (kWalk.ahead_bytes != 0) {
        // May point beyond the end: a prefetch does not fault.
        for (std::size_t line = 0; line < kStep; line += kCacheLineBytes) {
          __builtin_prefetch(from + kWalk.ahead_bytes + line);
        }
      }
      for (int k = 0; k < kWalk.vectors; ++k) {
        Vector loaded;
        std::memcpy(&loaded, from + k * sizeof(Vector), sizeof(Vector));
        folds[stream][k] ^= loaded;
      }
    }
  }
  std::uint64_t words[sizeof folds / 8];
  std::memcpy(words, folds, sizeof folds);
  std::uint64_t fold = 0;
  for (const std::uint64_t word : words) fold ^= word;
  return fold;
}

template <Walk kWalk>
std::uint64_t ReadBaseline(const std::byte* data, std::size_t bytes) {
  return Fold<Vector128, kWalk>(data, bytes);
}

#if defined(__x86_64__)
template <Walk kWalk>
__attribute__((target("avx2"))) std::uint64_t ReadAvx2(const std::byte* data, std::size_t bytes) {
  return Fold<Vector256, kWalk>(data, bytes);
}

template <Walk kWalk>
__attribute__((target("avx512f"))) std::uint64_t ReadAvx512(const std::byte* data, std::size_t bytes) {
  return Fold<Vector512, kWalk>(data, bytes);
}
#endif

constexpr Walk kPlain = {};
constexpr Walk kAhead = {.ahead_bytes = 2048};
constexpr Walk kFourStreams = {.streams = 4, .vectors = 4};

}  // namespace

std::vector<ReadLoop> ReadLoops() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    return {ReadAvx512<kPlain>, ReadAvx512<kAhead>, ReadAvx512<kFourStreams>,
            ReadAvx2<kPlain>,   ReadAvx2<kAhead>,   ReadAvx2<kFourStreams>};
  }
  if (__builtin_cpu_supports("avx2")) return {ReadAvx2<kPlain>, ReadAvx2<kAhead>, ReadAvx2<kFourStreams>};
#endif
  return {ReadBaseline<kPlain>, ReadBaseline<kAhead>, ReadBaseline<kFourStreams>};
}

}  // namespace warpfold::benchmarks
