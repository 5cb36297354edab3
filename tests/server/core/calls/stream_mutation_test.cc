// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Mutated streams of Reduce, and messages of ReduceArray, against a plain reading of the API document: a
// session returns what that reading yields, or an error if the reading finds one, and keeps no slot.
// WARPFOLD_MUTATED_STREAMS says how many there are, of these, of segments and of arrays that are put.
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/error.h"
#include "server/core/calls/plan_cache.h"
#include "server/core/wire/messages.h"
#include "tests/server/core/calls/mutated_streams.h"

namespace warpfold::server {
namespace {

// The operators and types that a stream may ask for. Their states have one part, two or many.
v1::ReductionSpec RandomSpec(Random& random) {
  static constexpr v1::Operator kOperators[] = {v1::OPERATOR_SUM,       v1::OPERATOR_MIN,
                                                v1::OPERATOR_ARGMAX,    v1::OPERATOR_BIT_XOR,
                                                v1::OPERATOR_LAST,      v1::OPERATOR_COUNT_NONZERO,
                                                v1::OPERATOR_EXACT_SUM, v1::OPERATOR_MAX_SUBARRAY_SUM,
                                                v1::OPERATOR_VARIANCE,  v1::OPERATOR_MATRIX_PRODUCT};
  static constexpr v1::ElementType kTypes[] = {v1::ELEMENT_TYPE_INT32,   v1::ELEMENT_TYPE_UINT8,
                                               v1::ELEMENT_TYPE_INT64,   v1::ELEMENT_TYPE_FLOAT32,
                                               v1::ELEMENT_TYPE_FLOAT16, v1::ELEMENT_TYPE_FLOAT64};
  for (;;) {
    v1::ReductionSpec spec;
    for (std::size_t count = 1 + Below(random, 3); count > 0; --count) {
      spec.add_operators(kOperators[Below(random, std::size(kOperators))]);
    }
    spec.set_element_type(kTypes[Below(random, std::size(kTypes))]);
    if (spec.operators(0) == v1::OPERATOR_MATRIX_PRODUCT) {
      spec.mutable_matrix_shape()->set_rows(2);
      spec.mutable_matrix_shape()->set_columns(2);
    }
    if (PlanFromProto(spec).ok()) return spec;
  }
}

// The response for an array, or none if its operators have none.
std::optional<v1::Reduction> AnswerTo(const kernels::ReductionPlan& plan, const v1::ReduceHeader& header,
                                      const std::string& data) {
  v1::Reduction answer;
  const auto state = kernels::ReduceOnHost(plan, header.first_element(), AsBytes(data));
  return FillReduction(state, header.return_state(), &answer).ok() ? std::optional(answer) : std::nullopt;
}

// Whether a header may begin an array of this many elements that comes by itself.
bool HeaderHolds(const v1::ReduceHeader& header, const kernels::ReductionPlan& plan, std::uint64_t elements,
                 std::uint64_t max_stream_bytes) {
  const std::uint64_t first = header.first_element();
  return IsText(header.request_id()) && !header.has_reference() && first % plan.leaf_elements() == 0 &&
         first <= (kMaxArrayBytes - max_stream_bytes) / plan.element_bytes() &&
         (plan.canonical() || (first == 0 && !header.return_state())) &&
         (!header.has_expected_element_count() || header.expected_element_count() == elements);
}

// The response that these messages should get; none if they are not a whole stream.
std::optional<v1::Reduction> PlainReading(const Messages& messages, std::uint64_t max_stream_bytes) {
  const auto requests = Parsed<v1::ReduceRequest>(messages);
  if (!requests.has_value() || requests->size() < 2) return std::nullopt;
  if (!requests->front().has_header() || !requests->back().has_commit()) return std::nullopt;
  const v1::ReduceHeader& header = requests->front().header();
  const auto plan = PlanFromProto(header.spec());
  if (!plan.ok()) return std::nullopt;
  std::string data;
  for (std::size_t i = 1; i + 1 < requests->size(); ++i) {
    if (!(*requests)[i].has_chunk() || !ChunkHolds((*requests)[i].chunk())) return std::nullopt;
    data += (*requests)[i].chunk().data();
  }
  const std::uint64_t element_bytes = plan->element_bytes();
  if (!HeaderHolds(header, *plan, data.size() / element_bytes, max_stream_bytes) ||
      !CommitHolds(requests->back().commit(), data, element_bytes, header.with_crc32c())) {
    return std::nullopt;
  }
  return AnswerTo(*plan, header, data);
}

std::optional<v1::Reduction> PlainReading(const std::string& message) {
  v1::ReduceArrayRequest request;
  if (!request.ParseFromString(message) || !IsText(request.request_id())) return std::nullopt;
  const auto plan = PlanFromProto(request.spec());
  if (!plan.ok() || request.data().size() % plan->element_bytes() != 0) return std::nullopt;
  return AnswerTo(*plan, {}, request.data());
}

// What a response says about the array, to the bit.
std::string WhatCounts(v1::Reduction answer) {
  answer.clear_timings();
  answer.clear_device();
  return answer.SerializeAsString();
}

Messages RandomStream(Random& random) {
  v1::ReduceRequest request;
  v1::ReduceHeader& header = *request.mutable_header();
  *header.mutable_spec() = RandomSpec(random);
  const kernels::ReductionPlan plan = PlanFromProto(header.spec()).value();
  const std::string data = RandomData(random, plan.element_bytes());
  header.set_with_crc32c(OneIn(random, 2));
  header.set_return_state(OneIn(random, 2));
  if (OneIn(random, 4)) header.set_first_element(Below(random, 9) * plan.leaf_elements());
  if (OneIn(random, 4)) header.set_expected_element_count(data.size() / plan.element_bytes());
  if (OneIn(random, 4)) header.set_request_id("a name");
  Messages messages = {request.SerializeAsString()};
  AddChunks<v1::ReduceRequest>(random, data, &messages);
  *request.mutable_commit() = CommitOf(data, plan.element_bytes(), header.with_crc32c());
  messages.push_back(request.SerializeAsString());
  return messages;
}

std::string RandomArray(Random& random) {
  v1::ReduceArrayRequest request;
  *request.mutable_spec() = RandomSpec(random);
  request.set_data(RandomData(random, PlanFromProto(request.spec())->element_bytes()));
  if (OneIn(random, 4)) request.set_request_id("a name");
  return request.SerializeAsString();
}

class StreamMutationTest : public MutationTest {
 protected:
  void Compare(const absl::StatusOr<v1::Reduction>& answer, const std::optional<v1::Reduction>& deserved) {
    ASSERT_EQ(answer.ok(), deserved.has_value()) << answer.status();
    if (!answer.ok()) {
      ASSERT_NE(kernels::ErrorReason(answer.status()), "") << answer.status();
      return;
    }
    ++answered_;
    ASSERT_EQ(WhatCounts(*answer), WhatCounts(*deserved));
  }

  int answered_ = 0;
};

TEST_F(StreamMutationTest, ReduceIsNeverAnsweredWrongly) {
  Play([&](bool mutates) {
    Messages messages = RandomStream(random_);
    if (mutates) Mutate(random_, messages);
    SessionDriver driver(service_, pool_);
    if (!Send(driver, messages)) return;
    Compare(driver.result(), PlainReading(messages, kMaxStreamBytes));
  });
  // Most of what was not mutated, and a little of what was: bytes of an array without a checksum, say.
  EXPECT_GT(answered_, MutatedStreams() / 7);
}

TEST_F(StreamMutationTest, ReduceArrayIsNeverAnsweredWrongly) {
  PlanCache plans;
  Play([&](bool mutates) {
    Messages messages = {RandomArray(random_)};
    if (mutates) Mutate(random_, messages);
    // The call itself rejects any other number of messages.
    while (messages.size() != 1) Mutate(random_, messages = {RandomArray(random_)});
    SessionDriver driver(service_, pool_);
    driver.OnArray(Arrives(messages[0]), plans);
    driver.AwaitDevice();
    Compare(driver.result(), PlainReading(messages[0]));
  });
  EXPECT_GT(answered_, MutatedStreams() / 7);
}

}  // namespace
}  // namespace warpfold::server
