// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How much one thread reduces in one go.
#pragma once

#include <cstdint>

#include "kernels/cpu/tuning.h"
#include "proto/leaf.h"

namespace warpfold::kernels::cpu {

inline constexpr std::uint64_t kTaskBytes = kLeafBytes << kTaskLevel;

// A call with many operators has smaller tasks.
constexpr std::uint64_t TaskBytes(std::uint64_t operators) {
  return operators <= kTaskOperators ? kTaskBytes : kTaskBytes / (operators / kTaskOperators);
}

constexpr std::uint64_t TaskSegments(std::uint64_t operators) {
  return operators < kTaskResults ? kTaskResults / operators : 1;
}

// A subtree of 2^TaskLevel leaves is one task. It has at most TaskBytes, or is one leaf.
constexpr std::uint32_t TaskLevel(std::uint64_t leaf_bytes, std::uint64_t operators) {
  std::uint32_t level = 0;
  while (leaf_bytes << (level + 1) <= TaskBytes(operators)) ++level;
  return level;
}

}  // namespace warpfold::kernels::cpu
