// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Exact sums of floats of similar magnitudes, using only additions of doubles: the fast way into a
// superaccumulator. There are a few adjacent bins, each 44 bits wide. A number is cut at their borders and
// each piece is added to its bin. A piece is a multiple of its bin's lowest bit, and at most 2^44 times that:
// 2^9 of them are added without rounding.
//
// Source: the extraction of high parts, S. M. Rump, T. Ogita, S. Oishi, "Accurate floating-point summation
// part I", SIAM J. Sci. Comput. 31 (2008), algorithm 3.2; bins for reproducible sums, J. Demmel, H. D.
// Nguyen, "Parallel reproducible summation", IEEE Trans. Computers 64 (2015).
#pragma once

#include <cstdint>

#include "kernels/operators/portable.h"

namespace warpfold::kernels {

// The top for numbers of which `largest` is typical; others may be 2^20 times as large. It is kept where
// doubles can anchor three bins.
WARPFOLD_FN int TopFor(double largest) {
  const int exponent = static_cast<int>(BitCast<std::uint64_t>(largest) >> 52 & 0x7ff) - 1022;
  const int top = exponent + 20;
  return top < -880 ? -880 : top > 1000 ? 1000 : top;
}

// Returns the upper half of a magnitude's bits. The larger of two magnitudes never has a smaller upper half.
WARPFOLD_FN std::uint32_t UpperHalf(double x) {
  return static_cast<std::uint32_t>(BitCast<std::uint64_t>(x) >> 32) & 0x7fffffffu;
}

template <int kBinCount>
class ExactBins {
 public:
  static constexpr int kBins = kBinCount;
  static constexpr int kBits = 44;
  // How many numbers may be added to one set of bins, each below 2^top in magnitude.
  static constexpr int kMaxAddends = 512;

  WARPFOLD_FN explicit ExactBins(int top) : top_(top) {}
  // Takes over bins that were filled elsewhere.
  WARPFOLD_FN ExactBins(int top, const double (&sums)[kBins]) : top_(top) {
    for (int i = 0; i < kBins; ++i) sums_[i] = sums[i];
  }

  // The middle of a binade whose numbers are as far apart as the lowest bit of bin i: adding it to a number
  // and subtracting it again rounds the number to that bit.
  WARPFOLD_FN static double Anchor(int top, int i) {
    const int exponent = top - kBits * (i + 1) + 52 + 1023;
    return BitCast<double>(static_cast<std::uint64_t>(exponent) << 52 | std::uint64_t{1} << 51);
  }

  // Moves the piece of x that belongs to the bin of this anchor from x to the bin.
  WARPFOLD_FN static void MovePiece(double& x, double anchor, double& bin) {
    const double piece = (x + anchor) - anchor;
    bin += piece;
    x -= piece;
  }

  // Adds x, a number below 2^top; false if x has bits below the bins, which are then no longer usable.
  WARPFOLD_FN bool Add(double x) {
    double rest = x;
    WARPFOLD_UNROLL
    for (int i = 0; i < kBins; ++i) MovePiece(rest, Anchor(top_, i), sums_[i]);
    return rest == 0;
  }

  WARPFOLD_FN int top() const { return top_; }
  // The number in bin i is Count(i) x 2^LowestBit(i), |Count(i)| <= 2^53.
  WARPFOLD_FN int LowestBit(int i) const { return LowestBitOf(top_, i); }
  WARPFOLD_FN static int LowestBitOf(int top, int i) { return top - kBits * (i + 1); }
  WARPFOLD_FN std::int64_t Count(int i) const {
    return static_cast<std::int64_t>(sums_[i] * PowerOfTwo(-LowestBit(i)));
  }

 private:
  WARPFOLD_FN static double PowerOfTwo(int exponent) {
    return BitCast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
  }

  int top_;
  double sums_[kBins] = {};
};

}  // namespace warpfold::kernels
