// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The names of the classical GPU reductions in cuda/textbook/, which a request may ask for. kAuto, the
// canonical reduction, is what everybody gets who asks for none. docs/textbook.md describes them.
// No abseil: device code includes this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace warpfold::kernels {

enum class Algorithm : std::uint8_t {
  kAuto,
  kSingleBlock,
  kSingleBlockOrdered,
  kTwoLaunch,
  kLastBlock,
  kLastBlockOrdered,
  kWarpShared,
  kWarpSharedOrdered,
  kWarpShuffle,
  kBlockOfWarps,
  kInterleavedModulo,
  kInterleavedStrided,
  kSequentialAddressing,
  kFirstAddOnLoad,
  kUnrolledWarp,
  kGridStride,
  kWarpFirst,
  kCooperativeGrid,
};
inline constexpr int kAlgorithmCount = 18;

struct AlgorithmFacts {
  const char* name;
  bool keeps_order;  // serves operators that are not commutative
};
// In the order of the enum.
inline constexpr AlgorithmFacts kAlgorithms[kAlgorithmCount] = {
    {"auto", true},
    {"single_block", false},
    {"single_block_ordered", true},
    {"two_launch", false},
    {"last_block", false},
    {"last_block_ordered", true},
    {"warp_shared", false},
    {"warp_shared_ordered", true},
    {"warp_shuffle", true},
    {"block_of_warps", false},
    {"interleaved_modulo", true},
    {"interleaved_strided", true},
    {"sequential_addressing", false},
    {"first_add_on_load", false},
    {"unrolled_warp", false},
    {"grid_stride", false},
    {"warp_first", false},
    {"cooperative_grid", false},
};

// The textbook keeps a state per thread in shared memory, and some of its blocks are whole warps: 32 of the
// largest states fill the 32 KiB that it has for them (textbook/block.cuh).
inline constexpr std::size_t kMaxTextbookStateBytes = 1024;
// Of a scalar, or of an entry of a matrix. Narrower types would teach nothing more, and take long to compile.
inline constexpr std::size_t kMinTextbookScalarBytes = 4;

constexpr const char* AlgorithmName(Algorithm algorithm) {
  return kAlgorithms[static_cast<int>(algorithm)].name;
}
constexpr bool KeepsOrder(Algorithm algorithm) {
  return kAlgorithms[static_cast<int>(algorithm)].keeps_order;
}
constexpr std::optional<Algorithm> AlgorithmByName(std::string_view name) {
  for (int i = 0; i < kAlgorithmCount; ++i) {
    if (name == kAlgorithms[i].name) return static_cast<Algorithm>(i);
  }
  return std::nullopt;
}

}  // namespace warpfold::kernels
