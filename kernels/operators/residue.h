// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Integers modulo a number that is known only at run time, using its reciprocal instead of a division.
// Computations use any numbers that are congruent; states, which others see, consist of residues.
#pragma once

#include <cstddef>
#include <type_traits>

#include "kernels/operators/element_types.h"

namespace warpfold::kernels {

// Twice as wide as Word: holds a product.
template <class Word>
using DoubleWord = std::conditional_t<sizeof(Word) == 4, std::uint64_t, Uint128>;

// Sums up to 2^bits products, exactly.
template <class Word>
struct SumOfProducts {
  DoubleWord<Word> low = 0;
  Word carry = 0;

  // The sum of one product.
  static WARPFOLD_FN SumOfProducts Of(Word a, Word b) { return {DoubleWord<Word>{a} * b, 0}; }

  WARPFOLD_FN void Add(Word a, Word b) {
#if defined(__CUDA_ARCH__)  // nvcc would compare although the hardware has a carry
    if constexpr (sizeof(Word) == 4) {
      auto low_word = static_cast<std::uint32_t>(low);
      auto high_word = static_cast<std::uint32_t>(low >> 32);
      asm("mad.lo.cc.u32 %0, %3, %4, %0;\n\t"
          "madc.hi.cc.u32 %1, %3, %4, %1;\n\t"
          "addc.u32 %2, %2, 0;"
          : "+&r"(low_word), "+&r"(high_word), "+&r"(carry)
          : "r"(a), "r"(b));
      low = DoubleWord<Word>{high_word} << 32 | low_word;
    } else {
      const DoubleWord<Word> product = DoubleWord<Word>{a} * b;
      auto low_word = static_cast<std::uint64_t>(low);
      auto high_word = static_cast<std::uint64_t>(low >> 64);
      asm("add.cc.u64 %0, %0, %3;\n\t"
          "addc.cc.u64 %1, %1, %4;\n\t"
          "addc.u64 %2, %2, 0;"
          : "+&l"(low_word), "+&l"(high_word), "+&l"(carry)
          : "l"(static_cast<std::uint64_t>(product)), "l"(static_cast<std::uint64_t>(product >> 64)));
      low = DoubleWord<Word>{high_word} << 64 | low_word;
    }
#else
    const DoubleWord<Word> product = DoubleWord<Word>{a} * b;
    low += product;
    carry += low < product;
#endif
  }
};

// The residues modulo a modulus of 2 or more, 0 to modulus - 1. Word is uint32_t or uint64_t.
template <class Word>
class Residues {
 public:
  Residues() = default;  // no modulus: only any() and modulus() may be called
  // 0: no modulus.
  WARPFOLD_FN explicit Residues(Word modulus) : modulus_(modulus) {
    if (modulus != 0) reciprocal_ = static_cast<Word>(-1) / modulus;
  }

  WARPFOLD_FN bool any() const { return modulus_ != 0; }
  WARPFOLD_FN Word modulus() const { return modulus_; }

  // The quotient may be one less than that of the division, but not two less: x / 2^bits is less than 1, and
  // the reciprocal is at most 1 less than 2^bits / modulus.
  WARPFOLD_FN Word Of(Word x) const {
    const auto quotient = static_cast<Word>(DoubleWord<Word>{reciprocal_} * x >> kBits);
    const Word remainder = x - quotient * modulus_;
    return remainder >= modulus_ ? remainder - modulus_ : remainder;
  }

 private:
  static constexpr int kBits = 8 * sizeof(Word);

  Word modulus_ = 0;
  Word reciprocal_ = 0;
};

// Integers modulo a modulus of 2 or more, each represented by any Word that is congruent to it: products of
// products use these until a state is made of them. Everything is computed modulo the largest multiple M of
// the modulus that is a Word: its highest bit is set, as divisions require, so that nothing need be shifted.
template <class Word>
class Congruences {
 public:
  // The most products in a sum.
  static constexpr Word kMaxTerms = 32;

  Congruences() = default;  // no modulus
  // 0: no modulus.
  WARPFOLD_FN explicit Congruences(Word modulus) {
    if (modulus == 0) return;
    negative_multiple_ = static_cast<Word>(-1) % modulus + 1;
    reciprocal_ = static_cast<Word>(static_cast<DoubleWord<Word>>(-1) / (0 - negative_multiple_));
    carry_ = Reduce(DoubleWord<Word>{negative_multiple_} * negative_multiple_);
    negative_offset_ = 0 - (kHighestBit + modulus - 1) / modulus * modulus;
  }

  // A Word that is congruent to the signed integer with these bits: to a negative one, a multiple of the
  // modulus is added. Signed moduli are small enough for that multiple to be a Word.
  WARPFOLD_FN Word OfSigned(Word bits) const {
    return SubtractIfGreater<Word>(bits, kHighestBit - 1, negative_offset_);
  }

  WARPFOLD_FN Word Of(DoubleWord<Word> x) const {
    const Word high = Less(static_cast<Word>(x >> kBits));
    return Reduce(DoubleWord<Word>{high} << kBits | static_cast<Word>(x));
  }

  // A Word that is congruent to a sum of up to kMostTerms products of any Words.
  //
  // The value of the carry is added to the rest, from which M 2^bits has been subtracted if it fits. That
  // does not overflow: if M <= 2^bits - 64, there is room for 64 Words times 2^bits; if it is greater, carry_
  // is the square of 63 or less. If a sum of two products has a carry, the rest is at most 2^(2 bits) -
  // 2^(bits + 2) + 2, so that there is room for carry_ without a subtraction.
  template <Word kMostTerms = kMaxTerms>
  WARPFOLD_FN Word Of(const SumOfProducts<Word>& sum) const {
    static_assert(kMostTerms <= kMaxTerms);
    if constexpr (kMostTerms <= 2) return Of(sum.low + (sum.carry != 0 ? carry_ : 0));
    const Word upper = Less(static_cast<Word>(sum.low >> kBits));
    const DoubleWord<Word> whole = DoubleWord<Word>{carry_} * sum.carry +
                                   (DoubleWord<Word>{upper} << kBits | static_cast<Word>(sum.low));
    return Of(whole);
  }

 private:
  static constexpr int kBits = 8 * sizeof(Word);
  static constexpr Word kHighestBit = Word{1} << (kBits - 1);

  // x minus M, if x is not less than M.
  WARPFOLD_FN Word Less(Word x) const { return Smaller<Word>(x + negative_multiple_, x); }

  // A Word that is congruent to x < M 2^bits. N. Möller, T. Granlund, "Improved division by invariant
  // integers", IEEE Transactions on Computers 60 (2011), algorithm 4, without its quotient and its last step:
  // what that step would correct is a Word, too.
  WARPFOLD_FN Word Reduce(DoubleWord<Word> x) const {
    const DoubleWord<Word> quotient = DoubleWord<Word>{reciprocal_} * static_cast<Word>(x >> kBits) + x;
    const Word estimate = static_cast<Word>(quotient >> kBits) + 1;
    const Word remainder = static_cast<Word>(x) + estimate * negative_multiple_;
    return SubtractIfGreater(remainder, static_cast<Word>(quotient), negative_multiple_);
  }

  Word negative_multiple_ = 0;  // 2^bits - M, and its remainder
  Word reciprocal_ = 0;         // of M, without its highest bit, which is always set
  Word carry_ = 0;              // a word that is congruent to 2^(2 bits)
  Word negative_offset_ = 0;    // a multiple of the modulus, at least 2^(bits - 1), negated
};

// Whether all entries are residues, or there is no modulus.
template <RingElement T>
inline bool AreResidues(const T* entries, std::size_t count, std::uint64_t modulus) {
  if constexpr (IntegerElement<T>) {
    for (std::size_t i = 0; modulus != 0 && i < count; ++i) {
      if (static_cast<Bits<T>>(entries[i]) >= modulus) return false;
    }
  }
  return true;
}

}  // namespace warpfold::kernels
