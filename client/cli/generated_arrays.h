// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Arrays that are computed while they are sent: any part at any time, so that streams can share them.
#pragma once

#include <cstdint>

#include "client/array.h"
#include "client/client.h"

namespace warpfold::cli {

// 0, 1, 2, ... in the element type.
Generator IotaGenerator(ElementType type);

// The largest N for which --iota N stays in the element type without loss.
std::uint64_t MaxIota(ElementType type);

// Pseudo-random elements, as `warpfold reduce --help` defines them.
Generator RandomGenerator(ElementType type, std::uint64_t seed);

// Output number `index` (from 0) of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
// generators, 2014) seeded with `seed`.
constexpr std::uint64_t SplitMix64(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace warpfold::cli
