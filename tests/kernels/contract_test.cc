// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The contract of every backend: for every operator, element type and shape, it yields the bits of the
// canonical order, whatever the cut. device_under_test.h says which device is tested.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ios>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/geometry.h"
#include "kernels/operators/element_types.h"
#include "kernels/operators/table.h"
#include "kernels/partial_state.h"
#include "kernels/reduction.h"
#include "tests/kernels/device_under_test.h"
#include "tests/kernels/elements.h"
#include "tests/kernels/expect_same.h"
#include "tests/kernels/random_array.h"
#include "tests/kernels/subjects.h"

namespace warpfold::kernels {
namespace {

constexpr std::uint64_t kMebibyte = 1 << 20;
constexpr std::uint64_t kFarLeaf = (std::uint64_t{1} << 40) + 21;

// Element counts at which something begins or ends.
std::set<std::uint64_t> Boundaries(const ReductionPlan& reduction) {
  const std::uint64_t leaf = reduction.leaf_elements();
  const std::uint64_t vector = std::max<std::uint64_t>(1, kVectorBytes / reduction.element_bytes());
  const std::uint64_t row = std::max<std::uint64_t>(1, kRowBytes / reduction.element_bytes());
  const std::uint64_t run = std::max<std::uint64_t>(1, leaf / kLanes);
  if (TinyScale()) return {1, leaf - 1, leaf + 1, 9 * leaf + 1, 65 * leaf + 1};  // one block alone, grids
  std::set<std::uint64_t> counts = {0, 1, 2, 3};
  const std::uint64_t half = std::max<std::uint64_t>(1, leaf / 2);
  for (const std::uint64_t edge : {vector, row, run, half, leaf, 2 * leaf, 3 * leaf, 16 * leaf}) {
    counts.insert({edge - 1, edge, edge + 1});
  }
  counts.insert(65 * leaf + 1);  // more than the CPU gives to one task
  if (SmallScale()) return counts;
  for (const std::uint64_t edge :
       {5 * leaf, 8 * leaf, 31 * leaf, 32 * leaf, 33 * leaf, 64 * leaf, 96 * leaf}) {
    counts.insert({edge - 1, edge, edge + 1});
  }
  return counts;
}

class ContractTest : public testing::TestWithParam<Subject> {
 protected:
  // Reduces a random array on the device and compares with the canonical order.
  void Check(std::uint64_t first_leaf, std::uint64_t count, Flavour flavour,
             std::uint64_t piece_leaves = ~std::uint64_t{0}) {
    SCOPED_TRACE(testing::Message() << count << " elements of flavour " << static_cast<int>(flavour)
                                    << " from leaf " << first_leaf << " in pieces of " << piece_leaves);
    const std::uint64_t first = first_leaf * reduction_.leaf_elements();
    const std::vector<std::byte> data = RandomArray(reduction_, count, flavour, random_);
    const PartialState state = DeviceUnderTest::Get().Reduce(reduction_, first, data, piece_leaves);
    ASSERT_EQ(state.element_count(), count);
    ExpectSame(state, 0, GetParam().Reference(first, data));
  }

  const ReductionPlan reduction_ = PlanOf(GetParam().spec);
  Random random_;
};

TEST_P(ContractTest, BitsAtTheBoundaries) {
  std::size_t turn = 0;
  for (const std::uint64_t count : Boundaries(reduction_)) {
    const Flavour flavour = kFlavours[turn % std::size(kFlavours)];
    const std::uint64_t first_leaf = turn++ % 3 == 2 ? kFarLeaf : 0;
    ASSERT_NO_FATAL_FAILURE(Check(first_leaf, count, flavour));
  }
}

TEST_P(ContractTest, BitsOfEveryKindOfElement) {
  for (const Flavour flavour : kFlavours) {
    ASSERT_NO_FATAL_FAILURE(Check(0, 2 * reduction_.leaf_elements() + 3, flavour));
    ASSERT_NO_FATAL_FAILURE(Check(7, reduction_.leaf_elements() - 1, flavour));
  }
}

// The bits of an infinity, or 0 for types that have none.
std::uint64_t InfinityOf(ElementType type) {
  switch (type) {
    case ElementType::kFloat16:
      return kInfinityBits<Float16>;
    case ElementType::kBfloat16:
      return kInfinityBits<Bfloat16>;
    case ElementType::kFloat32:
      return kInfinityBits<float>;
    case ElementType::kFloat64:
      return kInfinityBits<double>;
    default:
      return 0;
  }
}

// Methods that look at bits instead of values must not take a rare element for a common one.
TEST_P(ContractTest, BitsWithOneRareElementAmongTameOnes) {
  const std::uint64_t infinity = InfinityOf(GetParam().spec.element_type);
  if (infinity == 0) return;
  const std::uint64_t bytes = ElementTypeBytes(GetParam().spec.element_type);
  const std::uint64_t sign = std::uint64_t{1} << (8 * bytes - 1);
  const std::uint64_t least_normal = infinity & ~(infinity << 1);
  const std::uint64_t count = 2 * reduction_.leaf_elements();
  for (const std::uint64_t bits : {infinity, infinity | least_normal >> 1, infinity + 1, infinity - 1,
                                   std::uint64_t{1}, least_normal - 1, std::uint64_t{0}}) {
    for (const std::uint64_t signed_bits : {bits, bits | sign}) {
      SCOPED_TRACE(testing::Message() << std::hex << signed_bits);
      std::vector<std::byte> data = RandomArray(reduction_, count, Flavour::kTame, random_);
      std::memcpy(data.data() + random_() % (data.size() / bytes) * bytes, &signed_bits, bytes);
      ExpectSame(DeviceUnderTest::Get().Reduce(reduction_, 0, data), 0, GetParam().Reference(0, data));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(ContractTest, BitsOfLongArrays) {
  // Matrices take the time that their arithmetic takes.
  const std::uint64_t share = (SmallScale() ? 16 : 1) * (reduction_.spec().shape.is_matrix() ? 4 : 1);
  const std::uint64_t most = std::max<std::uint64_t>(16, kMebibyte / share / reduction_.element_bytes());
  for (const std::uint64_t first_leaf : {std::uint64_t{0}, std::uint64_t{13}, kFarLeaf}) {
    ASSERT_NO_FATAL_FAILURE(
        Check(first_leaf, 1 + random_() % (most / 4), kFlavours[random_() % std::size(kFlavours)]));
    const std::uint64_t piece_leaves = 1 + random_() % 40;
    ASSERT_NO_FATAL_FAILURE(Check(first_leaf, 1 + random_() % most, Flavour::kTame, piece_leaves));
    ASSERT_NO_FATAL_FAILURE(Check(first_leaf, 1 + random_() % most, Flavour::kWide));
  }
}

TEST_P(ContractTest, EveryCutGivesTheSameBits) {
  const std::uint64_t leaf = reduction_.leaf_elements();
  const std::uint64_t leaf_bytes = reduction_.leaf_bytes();
  for (const std::uint64_t first_leaf : {0, 5}) {
    const Flavour flavour = GetParam().commutative ? Flavour::kWide : Flavour::kTame;
    const std::vector<std::byte> data = RandomArray(reduction_, 8 * leaf + 1, flavour, random_);
    const reference::Result expected = GetParam().Reference(first_leaf * leaf, data);
    // All ways to cut 9 leaves into 3 parts, empty ones included.
    for (std::uint64_t i = 0; i <= 8; ++i) {
      for (std::uint64_t j = i; j <= (SmallScale() ? std::min<std::uint64_t>(8, i + 1) : 8); ++j) {
        const auto part = [&](std::uint64_t begin, std::uint64_t end) {
          const auto bytes = std::span(data).subspan(begin * leaf_bytes, (end - begin) * leaf_bytes);
          return DeviceUnderTest::Get().Reduce(reduction_, (first_leaf + begin) * leaf, bytes);
        };
        PartialState left = part(0, i);
        PartialState middle = part(i, j);
        const PartialState right = DeviceUnderTest::Get().Reduce(reduction_, (first_leaf + j) * leaf,
                                                                 std::span(data).subspan(j * leaf_bytes));
        if ((i + j) % 2 == 0) {  // either pair first
          ASSERT_TRUE(left.Append(middle).ok());
          ASSERT_TRUE(left.Append(right).ok());
        } else {
          ASSERT_TRUE(middle.Append(right).ok());
          ASSERT_TRUE(left.Append(middle).ok());
        }
        ASSERT_NO_FATAL_FAILURE(ExpectSame(left, 0, expected)) << "cut at leaves " << i << " and " << j;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, ContractTest, testing::ValuesIn(AllSubjects()),
                         [](const auto& subject) { return subject.param.name; });

// One request with the operators of all subjects in the group.
ReductionSpec SpecOf(const std::vector<Subject>& group) {
  ReductionSpec spec = group[0].spec;
  for (std::size_t i = 1; i < group.size(); ++i) spec.operators.push_back(group[i].spec.operators[0]);
  return spec;
}

bool FitsNode(std::vector<Subject> group, const Subject& subject) {
  group.push_back(subject);
  return ReductionPlan::Create(SpecOf(group)).ok();
}

// Subjects that one request can hold together: they have the same options, element type and shape, and states
// that are not too large.
std::vector<std::vector<Subject>> Combinable() {
  std::vector<std::vector<Subject>> groups;
  for (const Subject& subject : AllSubjects()) {
    const auto fits = [&](const std::vector<Subject>& group) {
      const ReductionSpec& a = subject.spec;
      const ReductionSpec& b = group[0].spec;
      return group.size() < kMaxOperators && a.element_type == b.element_type && a.shape == b.shape &&
             a.ignore_nan == b.ignore_nan && a.wrap_overflow == b.wrap_overflow && a.modulus == b.modulus &&
             FitsNode(group, subject);
    };
    const auto group = std::find_if(groups.begin(), groups.end(), fits);
    if (group == groups.end()) {
      groups.push_back({subject});
    } else {
      group->push_back(subject);
    }
  }
  return groups;
}

TEST(ContractOfManyTest, OperatorsTogetherEqualEachAlone) {
  Random random;
  std::size_t largest = 0;
  for (const std::vector<Subject>& group : Combinable()) {
    SCOPED_TRACE(group[0].name);
    largest = std::max(largest, group.size());
    const ReductionPlan reduction = PlanOf(SpecOf(group));
    const std::uint64_t count = 5 * reduction.leaf_elements() + random() % reduction.leaf_elements();
    const std::uint64_t first = 3 * reduction.leaf_elements();
    const std::vector<std::byte> data = RandomArray(reduction, count, Flavour::kExtreme, random);
    const PartialState state = DeviceUnderTest::Get().Reduce(reduction, first, data);
    for (std::size_t op = 0; op < group.size(); ++op) {
      ASSERT_NO_FATAL_FAILURE(ExpectSame(state, op, group[op].Reference(first, data))) << group[op].name;
    }
  }
  EXPECT_GE(largest, 10u);
}

// Each slot in its own thread, with its own reduction.
TEST(ContractOfManyTest, SlotsAreIndependent) {
  Backend* const backend = DeviceUnderTest::Get().backend();
  if (backend == nullptr) return;  // the calling thread has no slots
  std::vector<std::thread> threads;
  std::size_t number = 0;
  for (const auto& slot : backend->slots()) {
    threads.emplace_back([slot = slot.get(), seed = ++number] {
      Random random(seed);
      for (int round = 0; round < (SmallScale() ? 10 : 100); ++round) {
        const Subject& subject = AllSubjects()[random() % AllSubjects().size()];
        SCOPED_TRACE(subject.name);
        const ReductionPlan reduction = PlanOf(subject.spec);
        const std::uint64_t count = 1 + random() % (kMebibyte / 8 / reduction.element_bytes());
        const std::vector<std::byte> data = RandomArray(reduction, count, Flavour::kUnits, random);
        ASSERT_LE(data.size(), slot->staging().size());
        std::copy(data.begin(), data.end(), slot->staging().begin());
        ASSERT_TRUE(slot->Start(reduction, 0, count).ok());
        const absl::StatusOr<SlotResult> result = slot->Wait();
        ASSERT_TRUE(result.ok()) << result.status();
        ASSERT_NO_FATAL_FAILURE(ExpectSame(*result->state, 0, subject.Reference(0, data)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ContractOfManyTest, SlotsKeepTheirPromises) {
  Backend* const backend = DeviceUnderTest::Get().backend();
  if (backend == nullptr) return;
  EXPECT_TRUE(backend->fault().ok());
  EXPECT_THAT(backend->device(), testing::StartsWith(backend->name()));
  ASSERT_FALSE(backend->slots().empty());
  for (const auto& slot : backend->slots()) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slot->staging().data()) % 16, 0u);
    for (const Subject& subject : AllSubjects()) {
      const ReductionPlan reduction = PlanOf(subject.spec);
      const std::uint64_t capacity = slot->Capacity(reduction);
      EXPECT_GT(capacity, 0u) << subject.name;
      EXPECT_EQ(capacity % reduction.leaf_elements(), 0u) << subject.name;
      EXPECT_LE(capacity * reduction.element_bytes(), slot->staging().size()) << subject.name;
    }
  }
}

}  // namespace
}  // namespace warpfold::kernels
