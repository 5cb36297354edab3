// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Products of integers on both sides of 2^64. Those of 32 and 64 bits come so near to it that the float that
// accompanies them cannot tell on which side they are.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/operators/lists.h"
#include "kernels/operators/product.h"
#include "kernels/reduction.h"
#include "tests/kernels/device_under_test.h"

namespace warpfold::kernels {
namespace {

template <class T>
constexpr ElementType TypeOf() {
  ElementType type = {};
  ForEachType(ElementTypes(), [&]<class U, int kType>() {
    if constexpr (std::is_same_v<T, U>) type = ElementTypeAt(kType);
  });
  return type;
}
template <class T>
constexpr ElementType kTypeOf = TypeOf<T>();

template <class T>
class ProductLimitsTest : public testing::Test {
 protected:
  using Op = Product<T, false>;
  using State = typename Op::State;

  // The product's state over elements [begin, end): combined one after the other, or in halves.
  static typename Op::LeafState Fold(const std::vector<T>& elements, std::size_t begin, std::size_t end,
                                     bool in_halves) {
    const Op op;
    if (end - begin == 1) return op.Lift(elements[begin], static_cast<std::uint32_t>(begin));
    const std::size_t middle = in_halves ? (begin + end) / 2 : end - 1;
    return op.Combine(Fold(elements, begin, middle, in_halves), Fold(elements, middle, end, in_halves));
  }
  static State ProductOf(const std::vector<T>& elements) {
    State expected = {1, 0, 0};
    for (const T x : elements) {
      const Uint128 product = Uint128{expected.magnitude} * MagnitudeOf(x);
      expected.magnitude = static_cast<std::uint64_t>(product);
      expected.overflow |= static_cast<std::uint64_t>(product >> 64) != 0;
      expected.negative ^= IsNegative(x);
    }
    const bool zero = std::find(elements.begin(), elements.end(), T{0}) != elements.end();
    return zero ? State{0, 0, 0} : expected;
  }
  static void ExpectEqual(const State& state, const State& expected) {
    ASSERT_EQ(state.magnitude, expected.magnitude);
    ASSERT_EQ(state.negative, expected.negative);
    ASSERT_EQ(state.overflow, expected.overflow);
  }
  static void ExpectProduct(const std::vector<T>& elements) {
    for (const bool in_halves : {false, true}) {
      const State state = Op().Widen(Fold(elements, 0, elements.size(), in_halves), 0);
      ASSERT_NO_FATAL_FAILURE(ExpectEqual(state, ProductOf(elements)));
    }
  }

  // Two arrays that differ by one in one factor: the product of the first is below 2^64, that of the second
  // is not. Returns no arrays if that factor would not fit the type.
  std::vector<std::vector<T>> BothSides() {
    constexpr std::uint64_t kLargest = kLargestMagnitude<T>;
    constexpr std::uint64_t kMost = ~std::uint64_t{0};
    const std::uint64_t largest_factor = std::min(kLargest, 1 + UpTo(20));
    std::vector<T> factors;
    std::uint64_t product = 1;
    // Up to the point at which one more element takes the product to 2^64.
    while (kMost / product > kLargest || (sizeof(T) == 8 && factors.size() < UpTo(30))) {
      const std::uint64_t factor = UpTo(largest_factor);
      if (kMost / product < factor) break;
      product *= factor;
      factors.push_back(OfMagnitude(factor));
    }
    const std::uint64_t last = kMost / product;
    if (factors.empty() || last >= kLargest) return {};
    std::vector<std::vector<T>> arrays(2, factors);
    for (std::size_t i = 0; i < 2; ++i) {
      arrays[i].push_back(OfMagnitude(last + i));
      std::shuffle(arrays[i].begin(), arrays[i].end(), random_);
    }
    return arrays;
  }

  std::uint64_t UpTo(std::uint64_t most) { return random_() % most + 1; }
  T OfMagnitude(std::uint64_t magnitude) {
    const auto bits = static_cast<Bits<T>>(magnitude);
    return static_cast<T>(kIsSigned<T> && random_() % 2 == 0 ? Bits<T>{0} - bits : bits);
  }

  std::mt19937_64 random_;
};

using Integers = testing::Types<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t,
                                std::uint32_t, std::int64_t, std::uint64_t>;
TYPED_TEST_SUITE(ProductLimitsTest, Integers);

TYPED_TEST(ProductLimitsTest, BothSidesOfTwoToThe64) {
  int arrays = 0;
  for (int i = 0; i < 20000; ++i) {
    for (const auto& elements : this->BothSides()) {
      ASSERT_NO_FATAL_FAILURE(this->ExpectProduct(elements));
      ++arrays;
    }
  }
  EXPECT_GT(arrays, 2000);
}

// The same factors among ones, in leaves that are full, or nearly.
TYPED_TEST(ProductLimitsTest, OnTheDevice) {
  using T = TypeParam;
  ReductionSpec spec;
  spec.operators = {"product"};
  spec.element_type = kTypeOf<T>;
  const ReductionPlan reduction = ReductionPlan::Create(spec).value();
  const std::uint64_t leaf = reduction.leaf_elements();
  int arrays = 0;
  for (int i = 0; i < (SmallScale() ? 60 : 600); ++i) {
    for (const auto& elements : this->BothSides()) {
      std::vector<T> array(leaf - (i % 2 == 0 ? 0 : this->UpTo(leaf / 8)), T{1});
      std::copy(elements.begin(), elements.end(), array.begin());
      std::shuffle(array.begin(), array.end(), this->random_);
      const PartialState state =
          DeviceUnderTest::Get().Reduce(reduction, 0, std::as_bytes(std::span<const T>(array)));
      typename TestFixture::State product;
      ASSERT_EQ(state.RangeState(0).size(), sizeof product);
      std::memcpy(&product, state.RangeState(0).data(), sizeof product);
      ASSERT_NO_FATAL_FAILURE(this->ExpectEqual(product, this->ProductOf(array)));
      ++arrays;
    }
  }
  EXPECT_GT(arrays, 6);
}

// Far beyond the range of a float, with and without an element that is 0.
TYPED_TEST(ProductLimitsTest, BeyondFloats) {
  using T = TypeParam;
  for (const std::size_t count : {1, 2, 3, 40, 300, 4096}) {
    for (const std::uint64_t magnitude : {std::uint64_t{2}, std::uint64_t{3}, kLargestMagnitude<T>}) {
      std::vector<T> elements;
      for (std::size_t i = 0; i < count; ++i) elements.push_back(this->OfMagnitude(magnitude));
      ASSERT_NO_FATAL_FAILURE(this->ExpectProduct(elements));
      for (const std::size_t zero : {std::size_t{0}, count / 2, count - 1}) {
        std::vector<T> with_zero = elements;
        with_zero[zero] = 0;
        ASSERT_NO_FATAL_FAILURE(this->ExpectProduct(with_zero));
      }
    }
  }
}

}  // namespace
}  // namespace warpfold::kernels
