// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The shape of the canonical order: how a leaf is cut into lanes. proto/leaf.h says how an array is cut into
// leaves. This is part of the v1 API; docs/canonical-order.md is its specification.
#pragma once

#include <cstdint>

#include "kernels/operators/portable.h"
#include "proto/leaf.h"

namespace warpfold::kernels {

inline constexpr int kLanes = 32;
inline constexpr int kVectorBytes = 16;
inline constexpr int kRowBytes = kLanes * kVectorBytes;
inline constexpr int kLeafRows = static_cast<int>(kLeafBytes) / kRowBytes;

// More levels than the tree over an array of kMaxArrayBytes has.
inline constexpr std::uint32_t kTreeLevels = 64;

// The binary logarithm of a power of two.
constexpr std::uint32_t Log2(std::uint32_t x) { return x == 1 ? 0 : 1 + Log2(x / 2); }

// How many of a leaf's first `count` elements a lane has, if a vector has 2^vector_level elements.
WARPFOLD_FN std::uint32_t PresentInLane(std::uint32_t count, std::uint32_t lane, std::uint32_t vector_level) {
  constexpr std::uint32_t kLaneLevel = Log2(kLanes);
  const std::uint32_t row_level = vector_level + kLaneLevel;
  const std::uint32_t vector = 1u << vector_level;
  const std::uint32_t before = lane << vector_level;
  const std::uint32_t rest = count & ((1u << row_level) - 1);
  const std::uint32_t in_last_row = rest <= before ? 0 : rest - before < vector ? rest - before : vector;
  return (count >> row_level << vector_level) + in_last_row;
}

}  // namespace warpfold::kernels
