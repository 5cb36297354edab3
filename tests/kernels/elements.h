// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Random elements, chosen to be hard: extremes, zeros of both signs, infinities, NaNs with payloads,
// subnormals. The same seed gives the same bytes everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "kernels/types.h"

namespace warpfold::kernels {

using Random = std::mt19937_64;

enum class Flavour {
  kTame,      // odd integers, floats around 1 and -1: long products neither vanish nor overflow
  kWide,      // floats of many magnitudes, so that sums round everywhere; integers of any bits
  kUnits,     // -1, 0 and 1: products that stay small, many ties, zeros of both signs
  kExtreme,   // the ends of the range, subnormals, infinities, but no NaN
  kBits,      // any bits at all, NaNs of every kind among them
  kOutliers,  // tame, but one in 300 has any bits: code with a fast way for the usual case now and then takes
              // the other
  kFactors,   // 1 and -1, and a few others: products of integers come near the ends of their range
  kTiny,      // finite, at the bottom of the range: subnormals, the smallest normals, zeros of both signs
  kWhole,     // 1 and 2: products of six matrices of them stay exact in float32
};
// All flavours that are hard.
inline constexpr Flavour kFlavours[] = {Flavour::kTame,    Flavour::kWide, Flavour::kUnits,
                                        Flavour::kExtreme, Flavour::kBits, Flavour::kOutliers,
                                        Flavour::kFactors, Flavour::kTiny};

// `count` scalars of the type.
std::vector<std::byte> RandomElements(ElementType type, std::uint64_t count, Flavour flavour, Random& random);

// The scalars nearest to these numbers of their range; for bfloat16 the next one towards zero.
std::vector<std::byte> ElementsOf(ElementType type, std::span<const double> numbers);

// Moves tame square matrices near the unit matrix (floats) or to odd determinants (integers), so that long
// products of them neither vanish nor overflow either.
void MakeUnitLike(ElementType type, std::uint32_t dimension, std::span<std::byte> matrices);

}  // namespace warpfold::kernels
