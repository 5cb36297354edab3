// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The contract of every backend for segments: for every operator over scalars and every cut, they have the
// bits of one reduction for each segment. device_under_test.h says which device is tested.
#include "kernels/segments.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/error.h"
#include "kernels/geometry.h"
#include "kernels/segment_out.h"
#include "tests/kernels/device_under_test.h"
#include "tests/kernels/elements.h"
#include "tests/kernels/expect_same.h"
#include "tests/kernels/subjects.h"

namespace warpfold::kernels {
namespace {

ReductionPlan PlanOf(const ReductionSpec& spec) { return ReductionPlan::Create(spec).value(); }

std::vector<Subject> OverScalars() {
  std::vector<Subject> subjects = AllSubjects();
  std::erase_if(subjects, [](const Subject& subject) { return subject.spec.shape.is_matrix(); });
  return subjects;
}

// The row of results that a reduction of the segment alone gives.
std::vector<std::uint64_t> ExpectedRow(const ReductionPlan& reduction, std::span<const std::byte> segment,
                                       std::vector<Outcome::Error>& errors) {
  const SegmentLayout layout(reduction);
  const PartialState state = ReduceOnHost(reduction, 0, segment);
  std::vector<std::uint64_t> row;
  errors.clear();
  std::vector<absl::StatusOr<OperatorValue>> values;
  for (std::size_t op = 0; op < reduction.operators().size(); ++op) {
    values.push_back(state.Finish(op));
    const absl::Status& status = values.back().status();
    errors.push_back(status.ok()                         ? Outcome::Error::kNone
                     : ErrorReason(status) == "OVERFLOW" ? Outcome::Error::kOverflow
                                                         : Outcome::Error::kEmpty);
  }
  for (const SegmentColumn& column : layout.columns()) {
    const absl::StatusOr<OperatorValue>& value = values[column.op];
    if (column.what == SegmentColumn::What::kValue) {
      if (value.ok()) {
        EXPECT_EQ(value->entries[column.field].kind, column.kind);
      }
      row.push_back(value.ok() ? ColumnBits(value->entries[column.field]) : 0);
    } else {
      const bool is_index = column.what == SegmentColumn::What::kIndex;
      const auto index = !value.ok() ? std::nullopt : is_index ? value->index : value->end_index;
      row.push_back(index.value_or(Outcome::kNoIndex));
    }
  }
  return row;
}

std::string Text(const std::vector<std::uint64_t>& row, const std::vector<Outcome::Error>& errors) {
  std::string text;
  for (const std::uint64_t value : row) absl::StrAppend(&text, " ", absl::Hex(value));
  for (const Outcome::Error error : errors) absl::StrAppend(&text, " error ", static_cast<int>(error));
  return text;
}

// Cuts the data according to `lengths` and compares each segment's results; `alike`: all lengths are the
// same.
void Check(const ReductionPlan& reduction, const std::vector<std::uint64_t>& lengths, bool alike,
           std::span<const std::byte> data) {
  SegmentCut cut{.segment_count = lengths.size()};
  if (alike) {
    cut.length = lengths[0];
  } else {
    cut.lengths = lengths;
  }
  const DeviceUnderTest::Segments got = DeviceUnderTest::Get().ReduceSegments(reduction, cut, data);
  const std::size_t operators = reduction.operators().size();
  ASSERT_EQ(got.rows.size(), lengths.size());
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const std::uint64_t bytes = lengths[i] * reduction.element_bytes();
    std::vector<Outcome::Error> errors;
    const std::vector<std::uint64_t> row = ExpectedRow(reduction, data.subspan(begin, bytes), errors);
    std::vector<Outcome::Error> got_errors(operators, Outcome::Error::kNone);
    for (const SegmentError& error : got.errors[i]) got_errors[error.op] = error.error;
    ASSERT_EQ(Text(got.rows[i], got_errors), Text(row, errors))
        << "segment " << i << " of " << lengths[i] << " elements from " << begin << " bytes on";
    begin += bytes;
  }
}

std::uint64_t Sum(const std::vector<std::uint64_t>& lengths) {
  std::uint64_t sum = 0;
  for (const std::uint64_t length : lengths) sum += length;
  return sum;
}

class SegmentsTest : public testing::TestWithParam<Subject> {
 protected:
  void CheckLengths(const std::vector<std::uint64_t>& lengths, bool alike, Flavour flavour) {
    const std::vector<std::byte> data =
        RandomElements(reduction_.spec().element_type, Sum(lengths), flavour, random_);
    SCOPED_TRACE(testing::Message() << "flavour " << static_cast<int>(flavour));
    Check(reduction_, lengths, alike, data);
  }

  const ReductionPlan reduction_ = PlanOf(GetParam().spec);
  Random random_;
};

// Lengths at which something begins or ends.
std::vector<std::uint64_t> Boundaries(const ReductionPlan& reduction) {
  const std::uint64_t leaf = reduction.leaf_elements();
  const std::uint64_t vector = kVectorBytes / reduction.element_bytes();
  std::vector<std::uint64_t> lengths = {0, 1, 2, 3, leaf - 1, leaf, leaf + 1, 9 * leaf + 5};
  if (TinyScale()) return lengths;
  for (const std::uint64_t edge : {vector, leaf / 32, leaf / 8, leaf / 2, 2 * leaf, 3 * leaf, 8 * leaf}) {
    for (const std::uint64_t length : {edge - 1, edge, edge + 1}) lengths.push_back(length);
  }
  lengths.push_back(33 * leaf + 7);
  if (!SmallScale()) lengths.push_back(130 * leaf - 1);  // more than the CPU gives to one task
  return lengths;
}

TEST_P(SegmentsTest, OfAllLengthsSideBySide) {
  std::vector<std::uint64_t> lengths = Boundaries(reduction_);
  for (int turn = 0; turn < (SmallScale() ? 1 : 3); ++turn) {
    for (int i = 0; i < 200; ++i) lengths.push_back(random_() % 40);  // many short ones together
    std::shuffle(lengths.begin(), lengths.end(), random_);
    const Flavour flavour = kFlavours[random_() % std::size(kFlavours)];
    ASSERT_NO_FATAL_FAILURE(CheckLengths(lengths, false, flavour));
  }
}

TEST_P(SegmentsTest, OfOneLength) {
  const std::uint64_t leaf = reduction_.leaf_elements();
  std::size_t turn = 0;
  for (const std::uint64_t length :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{7}, std::uint64_t{16}, leaf / 32 + 1, leaf / 8,
        leaf / 4, leaf / 2 + 1, leaf, leaf + 1, 3 * leaf, 10 * leaf + 1}) {
    if (TinyScale() && ++turn % 3 != 0) continue;
    const std::uint64_t count = length > leaf ? 5 : 70;
    ASSERT_NO_FATAL_FAILURE(CheckLengths(std::vector(count, length), true, kFlavours[turn++ % 8]));
  }
}

INSTANTIATE_TEST_SUITE_P(Every, SegmentsTest, testing::ValuesIn(OverScalars()),
                         [](const auto& subject) { return subject.param.name; });

// More segments than a Start takes; some are longer than what a warp or a task takes.
TEST(SegmentsOfManyTest, AMillionTinyOnes) {
  Random random(7);
  for (const Subject& subject : OverScalars()) {
    const std::vector<std::string> some = {"sum_float32",      "argmax_int8",       "max_subarray_sum_int32",
                                           "describe_float64", "exact_sum_float32", "bit_and_uint16"};
    if (std::find(some.begin(), some.end(), subject.name) == some.end()) continue;
    SCOPED_TRACE(subject.name);
    const ReductionPlan reduction = PlanOf(subject.spec);
    std::vector<std::uint64_t> lengths(SmallScale() ? 30'000 : 1'000'000);
    for (std::uint64_t& length : lengths) length = random() % 4;
    lengths[5] = 100 * reduction.leaf_elements() + 1;
    const std::vector<std::byte> data =
        RandomElements(subject.spec.element_type, Sum(lengths), Flavour::kExtreme, random);
    ASSERT_NO_FATAL_FAILURE(Check(reduction, lengths, false, data));
  }
}

TEST(SegmentsOfManyTest, OperatorsTogether) {
  Random random(8);
  for (const ElementType type : {ElementType::kInt64, ElementType::kUint8, ElementType::kFloat32}) {
    ReductionSpec spec;
    spec.element_type = type;
    spec.operators = {"max_subarray_sum", "sum",   "mean", "describe", "argmin", "first", "last", "all",
                      "variance",         "minmax"};
    spec.ddof = 1;
    const ReductionPlan reduction = PlanOf(spec);
    std::vector<std::uint64_t> lengths;
    for (int i = 0; i < 300; ++i) lengths.push_back(random() % (i % 10 == 0 ? 5000 : 50));
    const std::vector<std::byte> data = RandomElements(type, Sum(lengths), Flavour::kExtreme, random);
    ASSERT_NO_FATAL_FAILURE(Check(reduction, lengths, false, data));
    ASSERT_NO_FATAL_FAILURE(Check(reduction, std::vector<std::uint64_t>(100, 37), true, data));
  }
}

// Host memory and the device's own, from any byte on.
TEST(SegmentsOfManyTest, FromMemory) {
  Backend* const backend = DeviceUnderTest::Get().backend();
  if (backend == nullptr) return;
  Slot& slot = *backend->slots().front();
  Random random(9);
  ReductionSpec spec;
  spec.operators = {"sum", "argmax"};
  spec.element_type = ElementType::kFloat32;
  const ReductionPlan reduction = PlanOf(spec);
  const std::vector<std::uint64_t> lengths = {5, 0, 4000, 1023, 1, 20'000, 17};
  const std::vector<std::byte> data = RandomElements(spec.element_type, Sum(lengths), Flavour::kWide, random);
  const auto expect = [&](const Memory& memory, std::uint64_t offset) {
    const SegmentCut cut = {.segment_count = lengths.size(), .lengths = lengths};
    ASSERT_TRUE(slot.StartSegmentsFrom(reduction, cut, memory, offset).ok());
    const absl::StatusOr<SegmentsResult> result = slot.WaitSegments();
    ASSERT_TRUE(result.ok()) << result.status();
    std::uint64_t begin = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      std::vector<Outcome::Error> errors;
      const auto segment = std::span(data).subspan(begin, 4 * lengths[i]);
      const std::vector<std::uint64_t> row = ExpectedRow(reduction, segment, errors);
      for (std::size_t c = 0; c < row.size(); ++c) ASSERT_EQ(result->Column(c)[i], row[c]) << i << ", " << c;
      begin += segment.size();
    }
    EXPECT_THAT(result->errors, testing::ElementsAre(SegmentError{1, 1, Outcome::Error::kEmpty}));
  };
  for (const std::uint64_t offset : {0, 4, 7}) {
    SCOPED_TRACE(offset);
    std::vector<std::byte> host(offset + data.size());
    std::copy(data.begin(), data.end(), host.begin() + static_cast<std::ptrdiff_t>(offset));
    const auto registered = backend->Register(host);
    ASSERT_TRUE(registered.ok()) << registered.status();
    ASSERT_NO_FATAL_FAILURE(expect(**registered, offset));

    const auto allocated = backend->Allocate(0, host.size());
    ASSERT_TRUE(allocated.ok()) << allocated.status();
    std::copy(data.begin(), data.end(), slot.staging().begin());
    ASSERT_TRUE(slot.StartStore(**allocated, offset, data.size()).ok());
    ASSERT_TRUE(slot.Wait().ok());
    ASSERT_NO_FATAL_FAILURE(expect(**allocated, offset));
  }
}

TEST(SegmentsOfManyTest, AStartHasRoomForSomeSegments) {
  Backend* const backend = DeviceUnderTest::Get().backend();
  if (backend == nullptr) return;
  for (const Subject& subject : OverScalars()) {
    for (const auto& slot : backend->slots()) {
      EXPECT_GT(slot->SegmentCapacity(PlanOf(subject.spec)), 0u) << subject.name;
    }
  }
}

TEST(SegmentsOfManyTest, MatricesAndTheTextbookHaveNone) {
  ReductionSpec spec;
  spec.operators = {"sum"};
  EXPECT_TRUE(CheckSegments(PlanOf(spec)).ok());
  spec.shape = {2, 2};
  const absl::Status of_matrices = CheckSegments(PlanOf(spec));
  EXPECT_TRUE(absl::IsInvalidArgument(of_matrices));
  EXPECT_EQ(ErrorReason(of_matrices), "BAD_HEADER");
  spec.shape = {};
  spec.algorithm = Algorithm::kLastBlock;
  EXPECT_EQ(ErrorReason(CheckSegments(PlanOf(spec))), "BAD_HEADER");
}

}  // namespace
}  // namespace warpfold::kernels
