// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The keys of max_subarray_sum within a leaf, compared with a search through all parts of it.
#include "kernels/operators/subarray_keys.h"

#include <concepts>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/operators/max_subarray_sum.h"

namespace warpfold::kernels {
namespace {

struct Part {
  Int128 sum;
  std::uint64_t begin;
  std::uint64_t end;
};

template <class Keys>
class SubarrayKeysTest : public testing::Test {
 protected:
  using T = typename Keys::Element;
  using Op = MaxSubarraySum<T, false>;
  using State = typename Op::State;
  using Elements = std::vector<T>;
  static constexpr std::uint32_t kLeaf = LeafElements(sizeof(T));
  static constexpr std::uint64_t kFirst = std::uint64_t{1} << 40;

  static T Element(std::int64_t value) {
    if constexpr (std::same_as<T, Boolean>) {
      return {static_cast<std::uint8_t>(value)};
    } else {
      return static_cast<T>(value);
    }
  }
  static T Smallest() { return Element(static_cast<std::int64_t>(std::numeric_limits<Value<T>>::min())); }
  static T Largest() { return Element(static_cast<std::int64_t>(std::numeric_limits<Value<T>>::max())); }

  // Elements of several kinds, most of them with many equal sums.
  Elements Random(std::uint32_t count) {
    const std::uint64_t kind = random_() % 6;
    Elements elements(count);
    for (T& x : elements) {
      const auto bits = static_cast<std::int64_t>(random_());
      switch (kind) {
        case 0:
          x = Element(bits);
          break;
        case 1:
          x = bits % 2 == 0 ? Smallest() : Largest();
          break;
        case 2:
          x = Element(bits % 2);
          break;  // -1, 0 and 1
        case 3:
          x = Element(bits % 8 == 0 ? bits % 3 : 0);
          break;
        case 4:
          x = Element(kIsSigned<T> ? -1 - (bits & 1) : bits & 1);
          break;
        default:
          x = bits % 16 == 0 ? Element(bits) : Element(-(bits & 1));
          break;
      }
    }
    return elements;
  }

  // The keys of elements [begin, end), split at random places or appended one by one.
  Keys Fold(const Elements& elements, std::uint32_t base, std::uint32_t begin, std::uint32_t end) {
    if (end - begin == 1) return Keys::Of(elements[begin], base + begin);
    if (random_() % 3 != 0) {
      const auto cut = static_cast<std::uint32_t>(begin + 1 + random_() % (end - begin - 1));
      return Keys::Join(Fold(elements, base, begin, cut), Fold(elements, base, cut, end));
    }
    const auto appended = static_cast<std::uint32_t>(1 + random_() % (end - begin - 1));
    Keys keys = Fold(elements, base, begin, end - appended);
    for (std::uint32_t i = end - appended; i < end; ++i) keys = keys.Append(elements[i], base + i);
    return keys;
  }

  // The result by definition: a search through all parts, which keeps the first of equal sums.
  static State Searched(const Elements& elements, std::uint32_t base) {
    const std::uint64_t count = elements.size();
    std::vector<Int128> before = {0};  // the sum of this many elements
    for (const T x : elements) before.push_back(before.back() + ValueOf(x));
    Part best{ValueOf(elements[0]), 0, 1};
    for (std::uint64_t begin = 0; begin < count; ++begin) {
      for (std::uint64_t end = begin + 1; end <= count; ++end) {
        if (before[end] - before[begin] > best.sum) best = {before[end] - before[begin], begin, end};
      }
    }
    Part prefix{before[1], 0, 1};
    for (std::uint64_t end = 1; end <= count; ++end) {
      if (before[end] > prefix.sum) prefix = {before[end], 0, end};
    }
    Part suffix{before[count], 0, count};
    for (std::uint64_t begin = 0; begin < count; ++begin) {
      if (before[count] - before[begin] > suffix.sum) suffix = {before[count] - before[begin], begin, count};
    }
    State state{};
    const Int128 sums[] = {before[count], best.sum, prefix.sum, suffix.sum};
    std::memcpy(state.words, sums, sizeof sums);
    const std::uint64_t first = kFirst + base;
    const std::uint64_t indices[] = {first + best.begin, first + best.end, first + prefix.end,
                                     first + suffix.begin, 1};
    std::memcpy(state.words + 8, indices, sizeof indices);
    return state;
  }

  static std::vector<std::uint64_t> Words(const State& state) {
    return {std::begin(state.words), std::end(state.words)};
  }
  // The form in which this machine keeps them.
  State Widened(const Keys& keys) const {
    return op_.Widen({keys.total, keys.best, keys.prefix, keys.suffix}, kFirst);
  }
  void ExpectSearched(const Elements& elements, std::uint32_t base) {
    const auto count = static_cast<std::uint32_t>(elements.size());
    const State state = Widened(Fold(elements, base, 0, count));
    ASSERT_EQ(Words(state), Words(Searched(elements, base))) << count << " elements from " << base;
  }

  const Op op_{};
  std::mt19937_64 random_;
};

// For 64 bits also the form in which a GPU keeps them.
using AllKeys =
    testing::Types<SubarrayKeys<std::int8_t>, SubarrayKeys<std::uint8_t>, SubarrayKeys<std::int16_t>,
                   SubarrayKeys<std::uint16_t>, SubarrayKeys<std::int32_t>, SubarrayKeys<std::uint32_t>,
                   SubarrayKeys<std::int64_t>, SubarrayKeys<std::uint64_t>,
                   SubarrayKeys<std::int64_t, ThreeWords>, SubarrayKeys<std::uint64_t, ThreeWords>,
                   SubarrayKeys<Boolean>>;
TYPED_TEST_SUITE(SubarrayKeysTest, AllKeys);

TYPED_TEST(SubarrayKeysTest, AnyGroupingFindsTheFirstAndShortest) {
  for (int i = 0; i < 20000; ++i) {
    const auto count = static_cast<std::uint32_t>(1 + this->random_() % 24);
    const auto base = static_cast<std::uint32_t>(this->random_() % (this->kLeaf - count + 1));
    ASSERT_NO_FATAL_FAILURE(this->ExpectSearched(this->Random(count), i % 3 == 0 ? 0 : base));
  }
}

TYPED_TEST(SubarrayKeysTest, FullLeaves) {
  for (int i = 0; i < 12; ++i) {
    ASSERT_NO_FATAL_FAILURE(this->ExpectSearched(this->Random(this->kLeaf), 0));
  }
}

// The largest sums there are; all elements are equal.
TYPED_TEST(SubarrayKeysTest, FullLeavesOfOneElement) {
  for (const auto x : {this->Smallest(), this->Largest(), this->Element(0), this->Element(-1)}) {
    typename TestFixture::Elements elements(this->kLeaf, x);
    ASSERT_NO_FATAL_FAILURE(this->ExpectSearched(elements, 0));
    elements[this->kLeaf / 2] = this->Largest();
    ASSERT_NO_FATAL_FAILURE(this->ExpectSearched(elements, 0));
    elements.back() = this->Smallest();
    ASSERT_NO_FATAL_FAILURE(this->ExpectSearched(elements, 0));
  }
}

TYPED_TEST(SubarrayKeysTest, EmptyIsNeutral) {
  const auto& op = this->op_;
  const TypeParam empty = TypeParam::Empty();
  const auto words = [&](const TypeParam& keys) { return this->Words(this->Widened(keys)); };
  EXPECT_EQ(words(empty), this->Words(op.Identity()));
  EXPECT_EQ(words(TypeParam::Join(empty, empty)), this->Words(op.Identity()));
  for (const auto x : {this->Smallest(), this->Largest(), this->Element(0)}) {
    const auto leaf = this->Fold(typename TestFixture::Elements(this->kLeaf, x), 0, 0, this->kLeaf);
    EXPECT_EQ(words(TypeParam::Join(empty, leaf)), words(leaf));
    EXPECT_EQ(words(TypeParam::Join(leaf, empty)), words(leaf));
  }
}

}  // namespace
}  // namespace warpfold::kernels
