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

#include "kernels/types.h"

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

// The textbook's algorithms serve these operators and types, which is enough to learn from: more would teach
// nothing new and would be compiled once for each algorithm. cuda/textbook/row_of.cuh builds these, over
// elements that count as they are: ignored NaN would be a second set of kernels.
inline constexpr std::string_view kTextbookScalarOperators[] = {"sum", "min", "max"};
inline constexpr std::string_view kTextbookMatrixOperator = "matrix_product";
inline constexpr std::uint32_t kTextbookRows = 2;
inline constexpr ElementType kTextbookTypes[] = {ElementType::kInt32, ElementType::kInt64,
                                                 ElementType::kFloat32, ElementType::kFloat64};
inline constexpr const char* kTextbookServes =
    "the textbook serves sum, min and max of scalars and matrix_product of 2 x 2 matrices, "
    "over int32, int64, float32 and float64, without ignore_nan";

constexpr bool TextbookServesType(ElementType type) {
  for (const ElementType served : kTextbookTypes) {
    if (type == served) return true;
  }
  return false;
}

constexpr bool TextbookServes(std::string_view name, ElementType type, ElementShape shape) {
  const bool serves_type = TextbookServesType(type);
  if (name == kTextbookMatrixOperator)
    return serves_type && shape == ElementShape{kTextbookRows, kTextbookRows};
  bool serves_scalars = false;
  for (const std::string_view served : kTextbookScalarOperators)
    serves_scalars = serves_scalars || name == served;
  return serves_type && serves_scalars && !shape.is_matrix();
}

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
