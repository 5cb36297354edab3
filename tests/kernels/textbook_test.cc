// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Every algorithm of the textbook with every operator and element type that it serves, at the sizes at which
// blocks and warps begin and end, compared with the canonical reduction on the CPU: exact operators return
// the same, rounding ones stay within a bound. Skipped on a device that has no algorithms
// (WARPFOLD_TEST_DEVICE, see device_under_test.h).
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/algorithm.h"
#include "kernels/backend.h"
#include "kernels/reduction.h"
#include "tests/kernels/device_under_test.h"
#include "tests/kernels/elements.h"
#include "tests/kernels/expect_same.h"
#include "tests/kernels/subjects.h"

namespace warpfold::kernels {
namespace {

struct Case {
  Algorithm algorithm = Algorithm::kAuto;
  Subject subject;

  ReductionSpec spec() const {
    ReductionSpec spec = subject.spec;
    spec.algorithm = algorithm;
    return spec;
  }
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << AlgorithmName(c.algorithm) << " of " << c.subject.name;
}

// All that ReductionPlan::Create accepts; textbook_refusals_test.cc says which these must be.
const std::vector<Case>& AllCases() {
  static const auto* const all = [] {
    auto* cases = new std::vector<Case>;
    for (int i = 1; i < kAlgorithmCount; ++i) {
      for (const Subject& subject : AllSubjects()) {
        const Case c = {static_cast<Algorithm>(i), subject};
        if (ReductionPlan::Create(c.spec()).ok()) cases->push_back(c);
      }
    }
    return cases;
  }();
  return *all;
}

bool IsFloat(const ReductionSpec& spec) {
  return spec.element_type == ElementType::kFloat32 || spec.element_type == ElementType::kFloat64;
}

// Whether the value depends on the order of combination; all others must be exact. An operator that is served
// and rounds fails here until it is named and has its bound.
bool Rounds(const ReductionSpec& spec) { return IsFloat(spec) && spec.operators[0] == "sum"; }

double FloatAt(const ReductionSpec& spec, std::span<const std::byte> array, std::uint64_t i) {
  if (spec.element_type == ElementType::kFloat64) {
    double x;
    std::memcpy(&x, &array[i * sizeof x], sizeof x);
    return x;
  }
  float x;
  std::memcpy(&x, &array[i * sizeof x], sizeof x);
  return x;
}

// Permutation matrices: their products do not commute, and are exact in any type and association.
void MakePermutations(const ReductionSpec& spec, std::span<std::byte> array, Random& random) {
  const std::uint32_t d = spec.shape.rows;
  const std::size_t bytes = ElementTypeBytes(spec.element_type);
  const double one64 = 1;
  const float one32 = 1;
  std::fill(array.begin(), array.end(), std::byte{0});
  std::vector<std::uint32_t> column(d);
  for (std::byte* matrix = array.data(); matrix < array.data() + array.size(); matrix += d * d * bytes) {
    for (std::uint32_t row = 0; row < d; ++row) column[row] = row;
    for (std::uint32_t row = d; row > 1; --row) std::swap(column[row - 1], column[random() % row]);
    for (std::uint32_t row = 0; row < d; ++row) {
      std::byte* const entry = matrix + (row * d + column[row]) * bytes;
      std::memcpy(entry, bytes == 8 ? static_cast<const void*>(&one64) : &one32, bytes);
    }
  }
}

std::uint64_t LongestArray(const ReductionSpec& spec) {
  if (SmallScale()) return spec.shape.is_matrix() ? 1025 : 20000;
  return spec.shape.is_matrix() ? 4097 + 200000 / spec.shape.entries() : (1 << 20) + 3;
}

// The longest array of that flavour; tests use prefixes of it. Made once for all algorithms.
std::span<const std::byte> Array(const Subject& subject, Flavour flavour) {
  static auto* const arrays = new std::map<std::string, std::vector<std::byte>>;
  std::vector<std::byte>& array = (*arrays)[subject.name + std::to_string(static_cast<int>(flavour))];
  if (!array.empty()) return array;
  const ReductionSpec& spec = subject.spec;
  Random random;
  array = RandomElements(spec.element_type, LongestArray(spec) * spec.shape.entries(), flavour, random);
  if (spec.shape.is_matrix()) {
    if (IsFloat(spec)) {
      MakePermutations(spec, array, random);
    } else if (flavour == Flavour::kTame) {
      MakeUnitLike(spec.element_type, spec.shape.rows, array);
    }
  }
  return array;
}

std::vector<std::uint64_t> Sizes(const ReductionSpec& spec) {
  if (TinyScale()) return {33, 1025, LongestArray(spec)};
  std::vector<std::uint64_t> sizes = {1, 2, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025};
  if (!SmallScale()) sizes.insert(sizes.end(), {511, 512, 513, 4095, 4096, 4097});
  sizes.push_back(LongestArray(spec));
  return sizes;
}

class TextbookTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    Backend* const backend = DeviceUnderTest::Get().backend();
    if (backend == nullptr || !backend->Supports(GetParam().algorithm)) {
      GTEST_SKIP() << "this device has no algorithm " << AlgorithmName(GetParam().algorithm);
    }
  }

  void CheckExact(Flavour flavour, std::uint64_t count) {
    const auto data = Array(GetParam().subject, flavour).first(count * reduction_.element_bytes());
    const PartialState state = DeviceUnderTest::Get().Reduce(reduction_, 0, data);
    ASSERT_EQ(state.element_count(), count);
    ASSERT_EQ(Describe(state.Finish(0)), Describe(ReduceOnHost(canonical_, 0, data).Finish(0)))
        << count << " elements of flavour " << static_cast<int>(flavour);
  }

  void CheckRounded(Flavour flavour, std::uint64_t count) {
    const auto data = Array(GetParam().subject, flavour).first(count * reduction_.element_bytes());
    const double value =
        DeviceUnderTest::Get().Reduce(reduction_, 0, data).Finish(0).value().entries[0].double_value;
    const double expected = ReduceOnHost(canonical_, 0, data).Finish(0).value().entries[0].double_value;
    double magnitude = 0;
    for (std::uint64_t i = 0; i < count; ++i) magnitude += std::fabs(FloatAt(GetParam().spec(), data, i));
    // Each addition rounds by at most 2^-53 of the magnitudes that it adds. In either order an element goes
    // through fewer than (n + 1) / 2 additions; if both orders were loops, the bound for that would be n - 1.
    const double bound = static_cast<double>(count + 1) * std::ldexp(1.0, -53) * magnitude;
    ASSERT_NEAR(value, expected, bound) << count << " elements of flavour " << static_cast<int>(flavour);
  }

  const ReductionPlan reduction_ = ReductionPlan::Create(GetParam().spec()).value();
  const ReductionPlan canonical_ = ReductionPlan::Create(GetParam().subject.spec).value();
};

TEST_P(TextbookTest, AnswersAsTheCanonicalReduction) {
  const ReductionSpec spec = GetParam().spec();
  for (const std::uint64_t count : Sizes(spec)) {
    // Sums and products of -1, 0 and 1 are exact in floats too.
    ASSERT_NO_FATAL_FAILURE(CheckExact(Flavour::kUnits, count));
    if (spec.shape.is_matrix()) {
      ASSERT_NO_FATAL_FAILURE(CheckExact(Flavour::kTame, count));
    } else if (Rounds(spec)) {
      ASSERT_NO_FATAL_FAILURE(CheckRounded(Flavour::kTame, count));
    } else {
      ASSERT_NO_FATAL_FAILURE(CheckExact(Flavour::kBits, count));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, TextbookTest, testing::ValuesIn(AllCases()), [](const auto& c) {
  return std::string(AlgorithmName(c.param.algorithm)) + "_of_" + c.param.subject.name;
});

// Reduces a prefix of a random size on a slot, and compares.
void CheckOnSlot(Slot& slot, const Case& c, Random& random) {
  const ReductionPlan reduction = ReductionPlan::Create(c.spec()).value();
  const std::uint64_t most = std::min(slot.Capacity(reduction), LongestArray(c.subject.spec));
  const std::uint64_t count = 1 + random() % most;
  const ReductionPlan canonical = ReductionPlan::Create(c.subject.spec).value();
  const std::vector<std::byte> data = RandomElements(
      c.subject.spec.element_type, count * c.subject.spec.shape.entries(), Flavour::kUnits, random);
  std::copy(data.begin(), data.end(), slot.staging().begin());
  ASSERT_TRUE(slot.Start(reduction, 0, count).ok());
  const absl::StatusOr<SlotResult> result = slot.Wait();
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(Describe(result->state->Finish(0)), Describe(ReduceOnHost(canonical, 0, data).Finish(0)))
      << c << " over " << count;
}

// Cases that are exact over -1, 0 and 1: all but products of float matrices.
const std::vector<Case>& ExactCases() {
  static const auto* const exact = [] {
    auto* cases = new std::vector<Case>;
    for (const Case& c : AllCases()) {
      const ReductionSpec& spec = c.subject.spec;
      if (!spec.shape.is_matrix() || !IsFloat(spec)) cases->push_back(c);
    }
    return cases;
  }();
  return *exact;
}

// One workspace serves launches of all algorithms and sizes, one after the other, including canonical ones,
// which use the same ticket.
TEST(TextbookSlotTest, TheTicketServesOneLaunchAfterAnother) {
  Backend* const backend = DeviceUnderTest::Get().backend();
  if (backend == nullptr || !backend->Supports(Algorithm::kLastBlock)) GTEST_SKIP() << "no algorithms here";
  Random random;
  for (int round = 0; round < (SmallScale() ? 20 : 400); ++round) {
    Case c = ExactCases()[random() % ExactCases().size()];
    if (round % 4 == 0) c.algorithm = Algorithm::kAuto;
    if (round % 4 == 1 && c.subject.commutative) c.algorithm = Algorithm::kLastBlock;
    if (round % 4 == 2) c.algorithm = Algorithm::kLastBlockOrdered;
    ASSERT_NO_FATAL_FAILURE(CheckOnSlot(*backend->slots()[0], c, random));
  }
}

// Each slot, and so each stream, in its own thread.
TEST(TextbookSlotTest, StreamsAreIndependent) {
  Backend* const backend = DeviceUnderTest::Get().backend();
  if (backend == nullptr || !backend->Supports(Algorithm::kLastBlock)) GTEST_SKIP() << "no algorithms here";
  ExactCases();  // made before the threads
  std::vector<std::thread> threads;
  std::size_t number = 0;
  for (const auto& slot : backend->slots()) {
    threads.emplace_back([slot = slot.get(), seed = ++number] {
      Random random(seed);
      for (int round = 0; round < (SmallScale() ? 10 : 200); ++round) {
        const Case& c = ExactCases()[random() % ExactCases().size()];
        ASSERT_NO_FATAL_FAILURE(CheckOnSlot(*slot, c, random));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Sums of int32 that wrap have separate kernels, whose accumulators are 32 bits wide. The elements have any
// bits, so that sums leave 32 bits many times over; slots' states are joined, too.
TEST(TextbookSlotTest, WrappedSumsOfInt32AnswerAsTheCanonicalReduction) {
  Backend* const backend = DeviceUnderTest::Get().backend();
  if (backend == nullptr || !backend->Supports(Algorithm::kLastBlock)) GTEST_SKIP() << "no algorithms here";
  Random random;
  ReductionSpec spec;
  spec.operators = {"sum"};
  spec.element_type = ElementType::kInt32;
  spec.wrap_overflow = true;
  const ReductionPlan canonical = ReductionPlan::Create(spec).value();
  const std::uint64_t count = LongestArray(spec);
  const std::vector<std::byte> data = RandomElements(spec.element_type, count, Flavour::kBits, random);
  const PartialState expected = ReduceOnHost(canonical, 0, data);
  for (int i = 1; i < kAlgorithmCount; ++i) {
    spec.algorithm = static_cast<Algorithm>(i);
    const ReductionPlan reduction = ReductionPlan::Create(spec).value();
    for (const std::uint64_t piece_leaves : {7, 1000}) {
      const PartialState state = DeviceUnderTest::Get().Reduce(reduction, 0, data, piece_leaves);
      EXPECT_EQ(Describe(state.Finish(0)), Describe(expected.Finish(0))) << AlgorithmName(spec.algorithm);
    }
  }
}

// Several operators in one request.
TEST(TextbookSlotTest, OperatorsTogetherEqualEachAlone) {
  Backend* const backend = DeviceUnderTest::Get().backend();
  if (backend == nullptr || !backend->Supports(Algorithm::kLastBlock)) GTEST_SKIP() << "no algorithms here";
  Random random;
  ReductionSpec spec;
  spec.operators = {"min", "sum", "max"};
  spec.element_type = ElementType::kInt64;
  const ReductionPlan canonical = ReductionPlan::Create(spec).value();
  const std::vector<std::byte> data = RandomElements(spec.element_type, 300007, Flavour::kUnits, random);
  const PartialState expected = ReduceOnHost(canonical, 0, data);
  for (int i = 1; i < kAlgorithmCount; ++i) {
    if (!kAlgorithms[i].serves_extrema) continue;
    spec.algorithm = static_cast<Algorithm>(i);
    const PartialState state =
        DeviceUnderTest::Get().Reduce(ReductionPlan::Create(spec).value(), 0, data, /*piece_leaves=*/100);
    for (std::size_t op = 0; op < spec.operators.size(); ++op) {
      EXPECT_EQ(Describe(state.Finish(op)), Describe(expected.Finish(op)))
          << AlgorithmName(spec.algorithm) << ", " << spec.operators[op];
    }
  }
}

}  // namespace
}  // namespace warpfold::kernels
