// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Everything that the real server returns is accepted, and little else.
#include "client/calls/answer_check.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "client/calls/segment_check.h"
#include "kernels/backend.h"
#include "server/core/wire/messages.h"
#include "server/core/wire/segment_results.h"

namespace warpfold {
namespace {

constexpr std::uint64_t kElements = 12;

v1::ReductionSpec SpecOf(int op, int type, std::optional<std::pair<int, int>> shape = std::nullopt) {
  v1::ReductionSpec spec;
  spec.add_operators(static_cast<v1::Operator>(op));
  spec.set_element_type(static_cast<v1::ElementType>(type));
  if (shape.has_value()) {
    spec.mutable_matrix_shape()->set_rows(static_cast<std::uint32_t>(shape->first));
    spec.mutable_matrix_shape()->set_columns(static_cast<std::uint32_t>(shape->second));
  }
  return spec;
}

// The response of a server for the elements 1, 2, 3, 1, 2, 3, ... or for the floats with these bits; nothing
// if no server accepts the spec.
std::optional<v1::Reduction> Serve(const v1::ReductionSpec& spec, bool state = false) {
  const auto reduction = server::PlanFromProto(spec);
  if (!reduction.ok()) return std::nullopt;
  const std::uint64_t entries =
      spec.has_matrix_shape() ? spec.matrix_shape().rows() * spec.matrix_shape().columns() : 1;
  std::vector<std::byte> data(kElements * reduction->element_bytes());
  const std::uint64_t entry_bytes = reduction->element_bytes() / entries;
  for (std::uint64_t i = 0; i < data.size() / entry_bytes; ++i) data[i * entry_bytes] = std::byte(1 + i % 3);
  v1::Reduction answer;
  const auto status = server::FillReduction(kernels::ReduceOnHost(*reduction, 0, data), state, &answer);
  EXPECT_TRUE(status.ok()) << status << " " << spec.ShortDebugString();
  return answer;
}

TEST(AnswerCheckTest, EveryAnswerOfTheServerIsBelieved) {
  int answers = 0;
  for (int op = v1::Operator_MIN + 1; op <= v1::Operator_MAX; ++op) {
    for (int type = v1::ElementType_MIN + 1; type <= v1::ElementType_MAX; ++type) {
      for (const auto& spec : {SpecOf(op, type), SpecOf(op, type, {{2, 2}}), SpecOf(op, type, {{1, 2}}),
                               SpecOf(op, type, {{1, 1}})}) {
        for (const bool state : {false, true}) {
          const std::optional<v1::Reduction> answer = Serve(spec, state);
          if (!answer.has_value()) continue;
          ++answers;
          EXPECT_TRUE(CheckReduction(spec, {0, kElements}, state, *answer).ok())
              << spec.ShortDebugString() << " " << answer->ShortDebugString();
        }
      }
    }
  }
  EXPECT_GT(answers, 1000);
}

TEST(AnswerCheckTest, ColumnsOfSegmentsAreThoseOfTheServer) {
  int layouts = 0;
  for (int op = v1::Operator_MIN + 1; op <= v1::Operator_MAX; ++op) {
    for (int type = v1::ElementType_MIN + 1; type <= v1::ElementType_MAX; ++type) {
      v1::ReductionSpec spec = SpecOf(op, type);
      for (const bool second : {false, true}) {
        if (second) spec.add_operators(op == v1::OPERATOR_ANY ? v1::OPERATOR_ALL : v1::OPERATOR_ANY);
        const auto reduction = server::PlanFromProto(spec);
        if (!reduction.ok() || !kernels::CheckSegments(*reduction).ok()) continue;
        v1::ReduceSegmentsResponse response;
        ASSERT_TRUE(response.ParseFromString(server::SegmentResults(*reduction, true).Layout()));
        ++layouts;
        EXPECT_TRUE(CheckLayout(spec, response.layout()).ok())
            << spec.ShortDebugString() << " " << response.ShortDebugString();
      }
    }
  }
  EXPECT_GT(layouts, 500);
}

// Whether the response to `spec` is still accepted after `change`.
template <typename Change>
bool Believed(const v1::ReductionSpec& spec, Change change, bool state = false) {
  v1::Reduction answer = Serve(spec, state).value();
  EXPECT_TRUE(CheckReduction(spec, {0, kElements}, state, answer).ok());
  change(answer);
  const absl::Status status = CheckReduction(spec, {0, kElements}, state, answer);
  EXPECT_TRUE(status.ok() || absl::IsInternal(status)) << status;
  return status.ok();
}

TEST(AnswerCheckTest, ResultsAreThoseOfTheOperatorsInOrder) {
  v1::ReductionSpec spec = SpecOf(v1::OPERATOR_SUM, v1::ELEMENT_TYPE_INT32);
  spec.add_operators(v1::OPERATOR_MIN);
  EXPECT_FALSE(Believed(spec, [](v1::Reduction& r) { r.clear_results(); }));
  EXPECT_FALSE(Believed(spec, [](v1::Reduction& r) { r.mutable_results()->RemoveLast(); }));
  EXPECT_FALSE(Believed(spec, [](v1::Reduction& r) { *r.add_results() = r.results(0); }));
  EXPECT_FALSE(Believed(spec, [](v1::Reduction& r) { r.mutable_results()->SwapElements(0, 1); }));
  EXPECT_FALSE(Believed(spec, [](v1::Reduction& r) { r.set_element_count(kElements - 1); }));
}

TEST(AnswerCheckTest, ValuesAreOfTheOperatorsKind) {
  const auto sum = SpecOf(v1::OPERATOR_SUM, v1::ELEMENT_TYPE_INT32);
  EXPECT_FALSE(Believed(sum, [](v1::Reduction& r) { r.mutable_results(0)->set_double_value(1); }));
  EXPECT_FALSE(Believed(sum, [](v1::Reduction& r) { r.mutable_results(0)->clear_value(); }));
  EXPECT_FALSE(Believed(sum, [](v1::Reduction& r) { r.mutable_results(0)->mutable_matrix_value(); }));
  // The response for a stripe need not have a value.
  EXPECT_TRUE(Believed(
      sum, [](v1::Reduction& r) { r.mutable_results(0)->clear_value(); }, true));
  EXPECT_FALSE(Believed(
      sum, [](v1::Reduction& r) { r.mutable_results(0)->set_double_value(1); }, true));

  // Some of several results may have an error instead of a value.
  v1::ReductionSpec both = sum;
  both.add_operators(v1::OPERATOR_MIN);
  EXPECT_TRUE(Believed(both, [](v1::Reduction& r) {
    r.mutable_results(0)->clear_value();
    r.mutable_results(0)->mutable_error()->set_code(11);
  }));
  EXPECT_FALSE(Believed(sum, [](v1::Reduction& r) { r.mutable_results(0)->mutable_error()->set_code(11); }));

  const auto describe = SpecOf(v1::OPERATOR_DESCRIBE, v1::ELEMENT_TYPE_FLOAT32);
  const auto fields = [](v1::Reduction& r) { return r.mutable_results(0)->mutable_fields_value(); };
  EXPECT_FALSE(Believed(describe, [&](v1::Reduction& r) { fields(r)->clear_fields(); }));
  EXPECT_FALSE(Believed(describe, [&](v1::Reduction& r) { fields(r)->mutable_fields(0)->set_name("x"); }));
  EXPECT_FALSE(Believed(describe, [&](v1::Reduction& r) { fields(r)->mutable_fields(5)->clear_value(); }));

  const auto matrices = SpecOf(v1::OPERATOR_SUM, v1::ELEMENT_TYPE_INT32, {{2, 2}});
  const auto matrix = [](v1::Reduction& r) { return r.mutable_results(0)->mutable_matrix_value(); };
  EXPECT_FALSE(Believed(matrices, [&](v1::Reduction& r) { matrix(r)->set_rows(4); }));
  EXPECT_FALSE(Believed(matrices, [&](v1::Reduction& r) { matrix(r)->add_int64_entries(1); }));
  EXPECT_FALSE(Believed(matrices, [&](v1::Reduction& r) { matrix(r)->add_double_entries(1); }));
  EXPECT_FALSE(Believed(matrices, [&](v1::Reduction& r) { r.mutable_results(0)->set_int64_value(1); }));
}

TEST(AnswerCheckTest, IndicesAreInTheArray) {
  const auto argmin = SpecOf(v1::OPERATOR_ARGMIN, v1::ELEMENT_TYPE_INT32);
  EXPECT_FALSE(Believed(argmin, [](v1::Reduction& r) { r.mutable_results(0)->set_index(kElements); }));
  EXPECT_FALSE(Believed(argmin, [](v1::Reduction& r) { r.mutable_results(0)->clear_index(); }));
  const auto part = SpecOf(v1::OPERATOR_MAX_SUBARRAY_SUM, v1::ELEMENT_TYPE_INT32);
  EXPECT_FALSE(Believed(part, [](v1::Reduction& r) { r.mutable_results(0)->set_end_index(kElements + 1); }));
  EXPECT_FALSE(Believed(part, [](v1::Reduction& r) { r.mutable_results(0)->set_end_index(0); }));
  EXPECT_FALSE(Believed(part, [](v1::Reduction& r) { r.mutable_results(0)->clear_end_index(); }));
  const auto clear = [](v1::Reduction& r) {
    r.mutable_results(0)->clear_index();
    r.mutable_results(0)->clear_end_index();
  };
  EXPECT_FALSE(Believed(part, clear));
  // A sum that is NaN has no indices.
  const auto floats = SpecOf(v1::OPERATOR_MAX_SUBARRAY_SUM, v1::ELEMENT_TYPE_FLOAT64);
  EXPECT_FALSE(Believed(floats, clear));
  EXPECT_TRUE(Believed(floats, [&](v1::Reduction& r) {
    clear(r);
    r.mutable_results(0)->set_double_value(std::numeric_limits<double>::quiet_NaN());
  }));
}

TEST(AnswerCheckTest, OtherOperatorsHaveNoIndices) {
  for (const int op : {v1::OPERATOR_SUM, v1::OPERATOR_MIN, v1::OPERATOR_DESCRIBE}) {
    const auto spec = SpecOf(op, v1::ELEMENT_TYPE_INT32);
    EXPECT_FALSE(Believed(spec, [](v1::Reduction& r) { r.mutable_results(0)->set_index(0); }));
    EXPECT_FALSE(Believed(spec, [](v1::Reduction& r) { r.mutable_results(0)->set_end_index(1); }));
  }
  const auto argmin = SpecOf(v1::OPERATOR_ARGMIN, v1::ELEMENT_TYPE_INT32);
  EXPECT_FALSE(Believed(argmin, [](v1::Reduction& r) { r.mutable_results(0)->set_end_index(1); }));
}

TEST(AnswerCheckTest, ElementsAreOnesOfTheirType) {
  const auto believed = [](int op, int type, std::int64_t value) {
    return Believed(SpecOf(op, type),
                    [&](v1::Reduction& r) { r.mutable_results(0)->set_int64_value(value); });
  };
  EXPECT_TRUE(believed(v1::OPERATOR_MIN, v1::ELEMENT_TYPE_INT8, -128));
  EXPECT_FALSE(believed(v1::OPERATOR_MIN, v1::ELEMENT_TYPE_INT8, -129));
  EXPECT_TRUE(believed(v1::OPERATOR_LAST, v1::ELEMENT_TYPE_INT16, 32'767));
  EXPECT_FALSE(believed(v1::OPERATOR_LAST, v1::ELEMENT_TYPE_INT16, 32'768));
  EXPECT_TRUE(believed(v1::OPERATOR_MIN, v1::ELEMENT_TYPE_INT64, std::numeric_limits<std::int64_t>::min()));
  EXPECT_TRUE(believed(v1::OPERATOR_SUM, v1::ELEMENT_TYPE_INT8, 1'000)) << "a sum is wider";

  const auto unsigned_believed = [](int op, int type, std::uint64_t value) {
    return Believed(SpecOf(op, type),
                    [&](v1::Reduction& r) { r.mutable_results(0)->set_uint64_value(value); });
  };
  EXPECT_TRUE(unsigned_believed(v1::OPERATOR_MAX, v1::ELEMENT_TYPE_UINT8, 255));
  EXPECT_FALSE(unsigned_believed(v1::OPERATOR_MAX, v1::ELEMENT_TYPE_UINT8, 256));
  EXPECT_TRUE(unsigned_believed(v1::OPERATOR_MAX_ABS, v1::ELEMENT_TYPE_INT8, 128));
  EXPECT_FALSE(unsigned_believed(v1::OPERATOR_MAX_ABS, v1::ELEMENT_TYPE_INT8, 129));
  EXPECT_TRUE(unsigned_believed(v1::OPERATOR_MAX, v1::ELEMENT_TYPE_UINT64, ~std::uint64_t{0}));
  EXPECT_TRUE(unsigned_believed(v1::OPERATOR_MAX_ABS, v1::ELEMENT_TYPE_INT64, std::uint64_t{1} << 63));

  EXPECT_FALSE(Believed(SpecOf(v1::OPERATOR_MINMAX, v1::ELEMENT_TYPE_INT8), [](v1::Reduction& r) {
    r.mutable_results(0)->mutable_fields_value()->mutable_fields(1)->set_int64_value(128);
  }));
  EXPECT_FALSE(Believed(SpecOf(v1::OPERATOR_MAX, v1::ELEMENT_TYPE_INT8, {{2, 2}}), [](v1::Reduction& r) {
    r.mutable_results(0)->mutable_matrix_value()->set_int64_entries(3, 128);
  }));
}

// A call that has no value at all fails: the short form of a client takes the first result's value without
// looking.
TEST(AnswerCheckTest, SomeResultHasAValue) {
  const v1::ReductionSpec spec = SpecOf(v1::OPERATOR_SUM, v1::ELEMENT_TYPE_INT32);
  v1::Reduction answer = *Serve(spec, /*state=*/true);
  answer.mutable_results(0)->clear_value();
  answer.mutable_results(0)->mutable_error()->set_reason("OVERFLOW");
  EXPECT_TRUE(CheckReduction(spec, {0, kElements}, /*state=*/true, answer).ok());
  EXPECT_TRUE(absl::IsInternal(CheckReduction(spec, {0, kElements}, /*state=*/false, answer)));
}

TEST(AnswerCheckTest, AStateIsOfTheRangeThatWasSent) {
  const auto sum = SpecOf(v1::OPERATOR_SUM, v1::ELEMENT_TYPE_INT32);
  EXPECT_FALSE(Believed(
      sum, [](v1::Reduction& r) { r.clear_state(); }, true));
  EXPECT_FALSE(Believed(
      sum, [](v1::Reduction& r) { r.mutable_state()->set_first_element(1024); }, true));
  EXPECT_FALSE(Believed(
      sum, [](v1::Reduction& r) { r.mutable_state()->set_element_count(1); }, true));
}

TEST(AnswerCheckTest, AServerSaysWhatItIs) {
  v1::GetServerInfoResponse info;
  EXPECT_TRUE(absl::IsInternal(CheckServerInfo(info)));
  info.set_version("1");
  EXPECT_TRUE(absl::IsInternal(CheckServerInfo(info)));
  info.mutable_limits()->set_max_message_bytes(1);
  EXPECT_TRUE(CheckServerInfo(info).ok());
}

}  // namespace
}  // namespace warpfold
