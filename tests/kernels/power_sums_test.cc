// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which sums and sums of squares integers can have: all that elements give are accepted, up to the longest
// array, and one step beyond the most that they give is rejected.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/operators/describe.h"
#include "kernels/operators/variance.h"
#include "proto/leaf.h"

namespace warpfold::kernels {
namespace {

template <class T>
class PowerSumsTest : public testing::Test {
 protected:
  using Describing = Describe<T, false>;
  using State = typename Describing::State;

  static constexpr std::uint64_t kLeast = std::same_as<T, Boolean> ? 0 : std::uint64_t(kSmallestKey<T>);
  static constexpr std::uint64_t kGreatest = std::same_as<T, Boolean> ? 1 : std::uint64_t(kLargestKey<T>);

  // The element whose lowest bits these are.
  static T Element(std::uint64_t bits) {
    if constexpr (std::same_as<T, Boolean>) {
      return {static_cast<std::uint8_t>(bits)};
    } else {
      return static_cast<T>(bits);
    }
  }

  static State Of(T element) { return Describing{}.Widen(Describing{}.Lift(element, 0), 0); }

  static State Of(const std::vector<T>& elements) {
    State state = Of(elements.front());
    for (std::size_t i = 1; i < elements.size(); ++i) state = Describing{}.Combine(state, Of(elements[i]));
    return state;
  }

  static bool IsPossible(const State& state, std::uint64_t count) {
    return Variance<T, false>{}.IsPossible(state.powers, 0, count) &&
           Describing{}.IsPossible(state, 0, count);
  }

  // Random elements from a part of the type's values: all, few, or those near its ends.
  std::vector<T> Elements() {
    std::vector<T> elements(1 + random_() % 9);
    const std::uint64_t kind = random_() % 4;
    const std::array<std::uint64_t, 7> ends = {
        kLeast, kLeast + 1, kGreatest, kGreatest - 1, std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}};
    const std::uint64_t mask = ~std::uint64_t{0} >> random_() % 64;
    for (T& element : elements) {
      const std::uint64_t end = ends[random_() % (kind == 0 ? 3 : ends.size())];
      element = Element(kind < 2 ? end : kind == 2 ? random_() & mask : kGreatest - (random_() & mask));
    }
    return elements;
  }

  std::mt19937_64 random_{1};
};

using Integers = testing::Types<Boolean, std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t,
                                std::uint32_t, std::int64_t, std::uint64_t>;
TYPED_TEST_SUITE(PowerSumsTest, Integers);

TYPED_TEST(PowerSumsTest, WhateverElementsGiveIsTaken) {
  for (int round = 0; round < 20'000; ++round) {
    const std::vector<TypeParam> elements = this->Elements();
    auto state = this->Of(elements);
    // The same elements are repeated until there are as many as the longest array has.
    for (std::uint64_t count = elements.size(); count <= kMaxElements<TypeParam>; count *= 2) {
      ASSERT_TRUE(this->IsPossible(state, count)) << count << " elements of round " << round;
      if (count > kMaxElements<TypeParam> / 2) break;
      state = typename TestFixture::Describing{}.Combine(state, state);
    }
  }
}

// All but one are the least or the greatest: no others with this sum have larger squares.
TYPED_TEST(PowerSumsTest, MoreThanTheMostIsRefused) {
  for (int round = 0; round < 2'000; ++round) {
    std::vector<TypeParam> elements = {this->Element(this->random_())};
    for (std::uint64_t i = this->random_() % 5; i > 0; --i) {
      elements.push_back(this->Element(this->random_() % 2 == 0 ? this->kLeast : this->kGreatest));
    }
    auto state = this->Of(elements);
    ASSERT_TRUE(this->IsPossible(state, elements.size()));
    for (int step = 0; step < 2; ++step) {  // an odd sum of squares for an even sum is refused in any case
      state.powers.squares =
          AsWords(FromWords(state.powers.squares) + decltype(FromWords(state.powers.squares)){1});
    }
    const Variance<TypeParam, false> variance;
    EXPECT_FALSE(variance.IsPossible(state.powers, 0, elements.size())) << "round " << round;
  }
}

}  // namespace
}  // namespace warpfold::kernels
