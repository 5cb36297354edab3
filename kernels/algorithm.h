// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The names of the classical GPU reductions in cuda/textbook/, which a request may ask for. A request that
// asks for none gets kAuto, the canonical reduction. docs/textbook.md describes them. No abseil: device code
// includes this.
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
  kWarpSharedOnce,
  kWarpSharedOrdered,
  kWarpSharedPadded,
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
inline constexpr int kAlgorithmCount = 20;

struct AlgorithmFacts {
  const char* name;
  bool keeps_order;            // serves operators that are not commutative
  bool serves_extrema = true;  // serves min and max
};
// In the order of the enum.
inline constexpr AlgorithmFacts kAlgorithms[kAlgorithmCount] = {
    {"auto", true},
    {"single_block", false},
    {"single_block_ordered", true},
    {"two_launch", false},
    {"last_block", false},
    {"last_block_ordered", true},
    {"warp_shared", false, false},
    {"warp_shared_once", false, false},
    {"warp_shared_ordered", true, false},
    {"warp_shared_padded", true, false},
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
// nothing new and would be compiled once for each algorithm. Four of them, which differ only in how a warp
// folds 32 states, do not serve min and max. cuda/textbook/row_of.cuh builds these, over elements that all
// count: ignoring NaN would need a second set of kernels.
inline constexpr std::string_view kTextbookSum = "sum";
inline constexpr std::string_view kTextbookExtrema[] = {"min", "max"};
inline constexpr std::string_view kTextbookMatrixOperator = "matrix_product";
inline constexpr std::uint32_t kTextbookRows = 2;
inline constexpr ElementType kTextbookTypes[] = {ElementType::kInt32, ElementType::kInt64,
                                                 ElementType::kFloat32, ElementType::kFloat64};
inline constexpr const char* kTextbookServes =
    "the textbook serves sum, min and max of scalars and matrix_product of 2 x 2 matrices, "
    "over int32, int64, float32 and float64, without ignore_nan; no min and max by warp_shared and its forms";

constexpr bool TextbookServesType(ElementType type) {
  for (const ElementType served : kTextbookTypes) {
    if (type == served) return true;
  }
  return false;
}

constexpr bool IsTextbookExtremum(std::string_view name) {
  for (const std::string_view extremum : kTextbookExtrema) {
    if (name == extremum) return true;
  }
  return false;
}

constexpr bool TextbookServes(Algorithm algorithm, std::string_view name, ElementType type,
                              ElementShape shape) {
  if (!TextbookServesType(type)) return false;
  if (name == kTextbookMatrixOperator) return shape == ElementShape{kTextbookRows, kTextbookRows};
  if (shape.is_matrix()) return false;
  if (IsTextbookExtremum(name)) return kAlgorithms[static_cast<int>(algorithm)].serves_extrema;
  return name == kTextbookSum;
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
