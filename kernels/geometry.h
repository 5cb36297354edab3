// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The shape of the canonical order: how a leaf is cut into lanes. proto/leaf.h says how an array is cut into
// leaves. Part of the v1 API; docs/canonical-order.md is its specification.
#pragma once

#include <cstdint>

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

}  // namespace warpfold::kernels
