// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Every operator of the list, over every element type that it takes, obeys the laws of a monoid.
//
// If combining rounds, laws that rounding breaks are checked on whole numbers that are small enough for
// floats to be exact.
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/operators/lists.h"
#include "kernels/operators/operator_list.h"
#include "kernels/reduction.h"
#include "tests/kernels/algebra.h"
#include "tests/kernels/elements.h"

namespace warpfold::kernels {

// Defined by the generated sources, one per family.
template <class Family>
void AddAlgebrasOf(std::vector<Algebra>* algebras);

namespace {

std::vector<Algebra> AllAlgebras() {
  std::vector<Algebra> algebras;
  ForEachType(OperatorList(), [&]<class Family, int>() { AddAlgebrasOf<Family>(&algebras); });
  return algebras;
}

class LawsTest : public testing::TestWithParam<Algebra> {
 protected:
  static std::vector<Flavour> AllFlavours() { return {std::begin(kFlavours), std::end(kFlavours)}; }
  std::vector<Flavour> ExactFlavours() const {
    return a_.associative ? AllFlavours() : std::vector<Flavour>{Flavour::kWhole};
  }

  Bytes Combine(const Bytes& left, const Bytes& right) const {
    return a_.combine(a_.parameters, left, right);
  }
  Bytes CombineLeaves(const Bytes& left, const Bytes& right) const {
    return a_.combine_leaves(a_.parameters, left, right);
  }
  Bytes Widen(const Bytes& leaf, std::uint64_t first) const { return a_.widen(a_.parameters, leaf, first); }
  Bytes Fold(std::span<const Bytes> states) const {
    Bytes state = states[0];
    for (const Bytes& next : states.subspan(1)) state = Combine(state, next);
    return state;
  }

  // Leaf states of single elements, each element at a different place in the leaf.
  std::vector<Bytes> RandomLeaves(Flavour flavour, std::size_t count) const {
    Random random(count);
    const std::uint64_t scalars = count * a_.element_bytes / ElementTypeBytes(a_.type);
    const Bytes data = RandomElements(a_.type, scalars, flavour, random);
    std::vector<Bytes> leaves;
    for (std::size_t i = 0; i < count; ++i) {
      const auto element = std::span(data).subspan(i * a_.element_bytes, a_.element_bytes);
      leaves.push_back(
          a_.lift(a_.parameters, element, static_cast<std::uint32_t>(i % LeafElements(a_.element_bytes))));
    }
    return leaves;
  }
  // States of two elements each; each element is in its own leaf.
  std::vector<Bytes> RandomStates(Flavour flavour, std::size_t count) const {
    const std::vector<Bytes> leaves = RandomLeaves(flavour, 2 * count);
    std::vector<Bytes> states;
    for (std::size_t i = 0; i < count; ++i) {
      states.push_back(Widen(CombineLeaves(leaves[2 * i], leaves[2 * i + 1]), 4096 * i));
    }
    return states;
  }

  const Algebra& a_ = GetParam();
};

TEST_P(LawsTest, IdentityIsNeutral) {
  const Bytes identity = a_.identity(a_.parameters);
  const Bytes leaf_identity = a_.leaf_identity(a_.parameters);
  EXPECT_EQ(Widen(leaf_identity, 4096), identity);
  // An ordered operator's identity stands only for the empty array, so exact numbers are enough.
  for (const Flavour flavour : a_.commutative ? AllFlavours() : ExactFlavours()) {
    for (const Bytes& state : RandomStates(flavour, 100)) {
      ASSERT_EQ(Combine(identity, state), state);
      ASSERT_EQ(Combine(state, identity), state);
    }
    for (const Bytes& leaf : RandomLeaves(flavour, 100)) {
      ASSERT_EQ(Widen(CombineLeaves(leaf_identity, leaf), 0), Widen(leaf, 0));
      ASSERT_EQ(Widen(CombineLeaves(leaf, leaf_identity), 0), Widen(leaf, 0));
    }
  }
}

TEST_P(LawsTest, NeutralElementIsNeutralBesideOthers) {
  if (a_.neutral_element == nullptr) return;
  const Bytes neutral = a_.lift(a_.parameters, a_.neutral_element(), 0);
  for (const Flavour flavour : AllFlavours()) {
    for (const Bytes& leaf : RandomLeaves(flavour, 300)) {
      ASSERT_EQ(Widen(CombineLeaves(neutral, leaf), 0), Widen(leaf, 0));
      ASSERT_EQ(Widen(CombineLeaves(leaf, neutral), 0), Widen(leaf, 0));
    }
  }
}

TEST_P(LawsTest, AppendIsCombineWithALiftedElement) {
  Random random;
  for (const Flavour flavour : AllFlavours()) {
    constexpr std::uint32_t kElements = 300;
    const Bytes data =
        RandomElements(a_.type, kElements * a_.element_bytes / ElementTypeBytes(a_.type), flavour, random);
    const auto element = [&](std::uint32_t i) {
      return std::span(data).subspan(i * a_.element_bytes, a_.element_bytes);
    };
    Bytes leaf = a_.lift(a_.parameters, element(0), 0);
    for (std::uint32_t i = 1; i < kElements; ++i) {
      const Bytes lifted = a_.lift(a_.parameters, element(i), i);
      const Bytes combined = CombineLeaves(leaf, lifted);
      ASSERT_EQ(Widen(a_.append(a_.parameters, leaf, element(i), i), 4096), Widen(combined, 4096));
      leaf = i % 50 == 0 ? lifted : combined;
    }
  }
}

TEST_P(LawsTest, StatesOfEquallyManyElementsCombineAsOthersDo) {
  const OperatorParameters& p = a_.parameters;
  for (const Flavour flavour : AllFlavours()) {
    const std::vector<Bytes> leaves = RandomLeaves(flavour, 300);
    for (std::size_t i = 0; i + 4 <= leaves.size(); i += 4) {
      const Bytes left = CombineLeaves(leaves[i], leaves[i + 1]);
      const Bytes right = CombineLeaves(leaves[i + 2], leaves[i + 3]);
      ASSERT_EQ(Widen(a_.combine_equal_leaves(p, left, right), 0), Widen(CombineLeaves(left, right), 0));
      ASSERT_EQ(a_.combine_equal(p, Widen(left, 0), Widen(right, 0)),
                Combine(Widen(left, 0), Widen(right, 0)));
    }
  }
}

TEST_P(LawsTest, AMovedLeafStateIsThatOfElementsFurtherOn) {
  if (a_.commutative) GTEST_SKIP() << "Moved is of ordered operators";
  for (const Flavour flavour : AllFlavours()) {
    const std::vector<Bytes> leaves = RandomLeaves(flavour, 100);
    for (std::size_t i = 0; i + 2 <= leaves.size(); ++i) {
      const Bytes leaf = CombineLeaves(leaves[i], leaves[i + 1]);
      ASSERT_EQ(Widen(a_.moved(a_.parameters, leaf, 200), 4096), Widen(leaf, 4296));
    }
  }
}

TEST_P(LawsTest, CombineIsAssociative) {
  if (a_.approximate) return;
  for (const Flavour flavour : ExactFlavours()) {
    const std::vector<Bytes> states = RandomStates(flavour, 300);
    for (std::size_t i = 0; i + 3 <= states.size(); i += 3) {
      ASSERT_EQ(Combine(Combine(states[i], states[i + 1]), states[i + 2]),
                Combine(states[i], Combine(states[i + 1], states[i + 2])));
    }
  }
}

// An associative operator needs no state at each node, and should say so. A few narrow floats are combined
// without rounding, so some states have as many as 2^40 elements.
TEST_P(LawsTest, OthersAreNotAssociative) {
  if (a_.associative) return;
  for (const Flavour flavour : AllFlavours()) {
    std::vector<Bytes> states = RandomStates(flavour, 300);
    for (std::size_t i = 1; i < states.size(); i += 2) {
      for (int level = 0; level < (i % 4 == 1 ? 2 : 40); ++level) states[i] = Combine(states[i], states[i]);
    }
    for (std::size_t i = 0; i + 3 <= states.size(); ++i) {
      if (Combine(Combine(states[i], states[i + 1]), states[i + 2]) !=
          Combine(states[i], Combine(states[i + 1], states[i + 2]))) {
        return;
      }
    }
  }
  ADD_FAILURE() << "no brackets give other bits";
}

TEST_P(LawsTest, CombineCommutesWhereDeclared) {
  if (!a_.commutative) return;
  for (const Flavour flavour : AllFlavours()) {
    const std::vector<Bytes> states = RandomStates(flavour, 200);
    for (std::size_t i = 0; i + 2 <= states.size(); i += 2) {
      ASSERT_EQ(Combine(states[i], states[i + 1]), Combine(states[i + 1], states[i]));
    }
  }
}

TEST_P(LawsTest, SplitEqualsWhole) {
  if (a_.approximate) return;
  for (const Flavour flavour : ExactFlavours()) {
    const std::vector<Bytes> states = RandomStates(flavour, 3);
    const std::span<const Bytes> all = states;
    for (std::size_t cut = 1; cut < all.size(); ++cut) {
      ASSERT_EQ(Combine(Fold(all.first(cut)), Fold(all.subspan(cut))), Fold(all)) << cut;
    }
  }
}

// Combining in a leaf and then widening is the same as widening and then combining.
TEST_P(LawsTest, WideningKeepsCombine) {
  for (const Flavour flavour : ExactFlavours()) {
    const std::vector<Bytes> leaves = RandomLeaves(flavour, 200);
    for (std::size_t i = 0; i + 2 <= leaves.size(); i += 2) {
      const std::uint64_t first = 4096 * i;
      ASSERT_EQ(Widen(CombineLeaves(leaves[i], leaves[i + 1]), first),
                Combine(Widen(leaves[i], first), Widen(leaves[i + 1], first)));
    }
  }
}

TEST_P(LawsTest, EmptyHasAValueWhereDeclared) {
  EXPECT_EQ(a_.finish_empty(a_.parameters), a_.has_identity ? Outcome::Error::kNone : Outcome::Error::kEmpty);
}

INSTANTIATE_TEST_SUITE_P(Every, LawsTest, testing::ValuesIn(AllAlgebras()),
                         [](const auto& algebra) { return algebra.param.name; });

}  // namespace
}  // namespace warpfold::kernels
