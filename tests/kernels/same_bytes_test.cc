// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Operators that share their kernels with those over another type (SameBytes): both must make the same bytes
// from the same bytes.
#include <cstdint>
#include <cstring>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "kernels/operators/lists.h"
#include "kernels/operators/operator_list.h"
#include "kernels/operators/traits.h"
#include "tests/kernels/elements.h"

namespace warpfold::kernels {
namespace {

template <class State>
std::string BytesOf(const State& state) {
  std::string bytes(sizeof state, '\0');
  std::memcpy(bytes.data(), &state, sizeof state);
  return bytes;
}

template <class Op>
typename Op::Element ElementFrom(std::uint64_t bits) {
  typename Op::Element x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// All bits, few of them, the sign alone, and what floats call infinity or NaN, as often as any others.
std::uint64_t RandomBits(Random& random) {
  switch (random() % 4) {
    case 0:
      return 0x8000000080008080u & (0 - random() % 2);
    case 1:
      return random() | 0x7ff07f807f800000u;
    default:
      return random();
  }
}

template <class Op, class Other>
void ExpectTheSameBytes() {
  static_assert(sizeof(typename Op::Element) == sizeof(typename Other::Element));
  static_assert(sizeof(typename Op::State) == sizeof(typename Other::State));
  static_assert(std::is_same_v<SameBytesOf<Other>, Other>);
  static_assert(Op::kCommutative == Other::kCommutative);
  if constexpr (HasNeutralElement<Op>) static_assert(Op::kNeutral == Other::kNeutral);
  const Op op;
  const Other other;
  EXPECT_EQ(BytesOf(op.Identity()), BytesOf(other.Identity()));
  Random random;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t left = RandomBits(random);
    const std::uint64_t right = RandomBits(random);
    const auto reduce = [&](const auto& o) {
      using O = std::remove_cvref_t<decltype(o)>;
      const auto a = o.Lift(ElementFrom<O>(left), 0);
      const auto leaf = o.Combine(a, o.Combine(o.LeafIdentity(), o.Lift(ElementFrom<O>(right), 1)));
      return o.Combine(o.Widen(leaf, 0), o.Widen(o.Lift(ElementFrom<O>(left), 0), 4096));
    };
    ASSERT_EQ(BytesOf(reduce(op)), BytesOf(reduce(other)))
        << Op::kName << std::hex << " " << left << " " << right;
  }
}

template <template <class, bool> class Family>
void CheckFamily(ScalarFamily<Family>, std::set<std::string>* shared) {
  const auto check = [&]<class T, bool kIgnoreNan>() {
    if constexpr (kSupports<Family, T, kIgnoreNan>) {
      using Op = Family<T, kIgnoreNan>;
      if constexpr (!std::is_same_v<SameBytesOf<Op>, Op> && std::is_same_v<ReducerOf<Op>, Op>) {
        shared->insert(Op::kName);
        ExpectTheSameBytes<Op, SameBytesOf<Op>>();
      }
    }
  };
  ForEachType(ElementTypes(), [&]<class T, int>() {
    check.template operator()<T, false>();
    check.template operator()<T, true>();
  });
}
// Operators over matrices share no kernels.
template <class Family>
void CheckFamily(Family, std::set<std::string>*) {}

TEST(SameBytesTest, OperatorsThatShareKernelsMakeTheSameStates) {
  std::set<std::string> shared;
  ForEachType(OperatorList(), [&]<class Family, int>() { CheckFamily(Family(), &shared); });
  EXPECT_EQ(shared,
            (std::set<std::string>{"bit_and", "bit_or", "bit_xor", "count_nonzero", "first", "last"}));
}

}  // namespace
}  // namespace warpfold::kernels
