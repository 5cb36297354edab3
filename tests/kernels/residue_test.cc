// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic modulo m without divisions, compared with the compiler's division.
#include "kernels/operators/residue.h"

#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"

namespace warpfold::kernels {
namespace {

template <class Word>
class ResidueTest : public testing::Test {
 protected:
  static constexpr Word kLargest = std::numeric_limits<Word>::max();
  static constexpr Word kHalf = kLargest / 2 + 1;

  // Small and large moduli, powers of two, both sides of the point where Congruences' bounds meet, and those
  // that are their own only multiple in a Word.
  std::vector<Word> Moduli() {
    std::vector<Word> moduli = {2,     3,         4,          5,          63,         64,
                                65,    998244353, 2147483647, 2147483649, 4294967295, kHalf - 1,
                                kHalf, kHalf + 1, kHalf / 2,  kHalf + 2};
    for (Word below = 0; below < 70; ++below) moduli.push_back(kLargest - below);
    for (int bits = 2; bits < static_cast<int>(8 * sizeof(Word)); ++bits) {
      moduli.push_back(AnyWord() >> bits | 2);
    }
    for (int i = 0; i < 100; ++i) moduli.push_back(static_cast<Word>(random_()) | kHalf);
    return moduli;
  }

  // Often the largest words there are: sums of their products need every carry.
  Word AnyWord() {
    const std::uint64_t bits = random_();
    return bits % 3 == 0 ? kLargest - static_cast<Word>(random_() % 3)
                         : static_cast<Word>(bits >> 2 ^ bits << 60);
  }

  std::mt19937_64 random_;
};

using Words = testing::Types<std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(ResidueTest, Words);

// Residues of numbers next to multiples of the modulus, for which a quotient is easily wrong by one.
TYPED_TEST(ResidueTest, OfWords) {
  using Word = TypeParam;
  for (const Word modulus : this->Moduli()) {
    const Residues<Word> residues(modulus);
    ASSERT_TRUE(residues.any());
    ASSERT_EQ(residues.modulus(), modulus);
    const Word largest_multiple = this->kLargest / modulus * modulus;
    std::vector<Word> near = {0, modulus, this->kHalf, largest_multiple, this->kLargest};
    for (int i = 0; i < 100; ++i) near.push_back(this->AnyWord() / modulus * modulus);
    for (const Word middle : near) {
      for (int offset = -2; offset <= 2; ++offset) {
        const Word x = middle + static_cast<Word>(offset);  // may wrap
        ASSERT_EQ(residues.Of(x), x % modulus) << x << " mod " << modulus;
      }
    }
    for (int i = 0; i < 100; ++i) {
      const Word x = this->AnyWord();
      ASSERT_EQ(residues.Of(x), x % modulus) << x << " mod " << modulus;
    }
  }
}

TYPED_TEST(ResidueTest, SumsOfProducts) {
  using Word = TypeParam;
  for (const Word modulus : this->Moduli()) {
    const Residues<Word> residues(modulus);
    const Congruences<Word> congruences(modulus);
    for (Word terms = 1; terms <= Congruences<Word>::kMaxTerms; ++terms) {
      SumOfProducts<Word> sum;
      Word expected = 0;
      for (Word i = 0; i < terms; ++i) {
        const Word a = this->AnyWord();
        const Word b = this->AnyWord();
        sum.Add(a, b);
        const auto product = static_cast<Word>(Uint128{a} * b % modulus);
        expected = static_cast<Word>((Uint128{expected} + product) % modulus);
      }
      ASSERT_EQ(congruences.Of(sum) % modulus, expected) << modulus << ", " << terms << " terms";
      ASSERT_EQ(residues.Of(congruences.Of(sum)), expected) << modulus << ", " << terms << " terms";
    }
  }
}

// Sums of one and of two products have a shorter way, for which the largest words come closest to an
// overflow.
TYPED_TEST(ResidueTest, SumsOfTwoProducts) {
  using Word = TypeParam;
  for (const Word modulus : this->Moduli()) {
    const Congruences<Word> congruences(modulus);
    std::vector<Word> words = {0, 1, this->kHalf, this->kLargest - 1, this->kLargest};
    for (int i = 0; i < 5; ++i) words.push_back(this->AnyWord());
    for (const Word a : words) {
      for (const Word b : words) {
        SumOfProducts<Word> sum = SumOfProducts<Word>::Of(a, this->kLargest);
        auto expected = static_cast<Word>(Uint128{a} * this->kLargest % modulus);
        ASSERT_EQ(congruences.template Of<1>(sum) % modulus, expected) << modulus;
        sum.Add(b, this->kLargest);
        const auto product = static_cast<Word>(Uint128{b} * this->kLargest % modulus);
        expected = static_cast<Word>((Uint128{expected} + product) % modulus);
        ASSERT_EQ(congruences.template Of<2>(sum) % modulus, expected) << modulus;
      }
    }
  }
}

// All but full below the carry; adding the carry's residue must not overflow this.
TYPED_TEST(ResidueTest, FullSumsOfProducts) {
  using Word = TypeParam;
  for (const Word modulus : this->Moduli()) {
    const Congruences<Word> congruences(modulus);
    SumOfProducts<Word> sum;
    Word expected = 0;
    const auto add = [&](SumOfProducts<Word>& to, Word b) {
      to.Add(this->kLargest, b);
      return static_cast<Word>(Uint128{this->kLargest} * b % modulus);
    };
    for (Word terms = 1; terms < Congruences<Word>::kMaxTerms; ++terms) {
      expected = static_cast<Word>((Uint128{expected} + add(sum, this->kLargest)) % modulus);
      SumOfProducts<Word> full = sum;
      const Word last = add(full, 2 * terms);
      ASSERT_EQ(full.low, static_cast<DoubleWord<Word>>(0) - terms);
      ASSERT_EQ(full.carry, terms - 1);
      ASSERT_EQ(congruences.Of(full) % modulus, static_cast<Word>((Uint128{expected} + last) % modulus))
          << modulus;
    }
  }
}

TYPED_TEST(ResidueTest, Products) {
  using Word = TypeParam;
  for (const Word modulus : this->Moduli()) {
    const Residues<Word> residues(modulus);
    const Congruences<Word> congruences(modulus);
    for (int i = 0; i < 100; ++i) {
      const Word a = this->AnyWord();
      const Word x = this->AnyWord();
      const Word b = this->AnyWord();
      const auto sum = static_cast<DoubleWord<Word>>(DoubleWord<Word>{a} * x + b);
      ASSERT_EQ(congruences.Of(sum) % modulus, static_cast<Word>(sum % modulus)) << modulus;
      // Products of residues, as in states.
      const auto small =
          static_cast<DoubleWord<Word>>(DoubleWord<Word>{a % modulus} * (x % modulus) + b % modulus);
      ASSERT_EQ(residues.Of(congruences.Of(small)), static_cast<Word>(small % modulus)) << modulus;
    }
  }
}

// Negative numbers are counted from the modulus downwards. (For signed elements moduli are signed, too.)
TYPED_TEST(ResidueTest, OfSigned) {
  using Word = TypeParam;
  using Signed = std::make_signed_t<Word>;
  for (const Word modulus : this->Moduli()) {
    if (modulus >= this->kHalf) continue;
    const Residues<Word> residues(modulus);
    const Congruences<Word> congruences(modulus);
    const auto least = static_cast<Word>(std::numeric_limits<Signed>::min());
    std::vector<Word> words = {0, 1, least, least + 1, least - 1, this->kLargest, 0 - modulus, 1 - modulus};
    for (int i = 0; i < 100; ++i) words.push_back(this->AnyWord());
    for (const Word word : words) {
      const auto x = static_cast<Signed>(word);
      const auto remainder = static_cast<Signed>(x % static_cast<Signed>(modulus));
      const Word expected =
          remainder < 0 ? static_cast<Word>(remainder) + modulus : static_cast<Word>(remainder);
      const Word congruent = congruences.OfSigned(word);
      ASSERT_EQ(congruent % modulus, expected) << x << " mod " << modulus;
      ASSERT_EQ(residues.Of(congruent), expected) << x << " mod " << modulus;
    }
  }
}

}  // namespace
}  // namespace warpfold::kernels
