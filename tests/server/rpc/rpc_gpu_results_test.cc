// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Results of segments that the server writes to GPU memory of the client.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/error.h"
#include "client/shared_memory.h"
#include "tests/server/memory/fake_seals.h"
#include "tests/server/rpc/memory_socket_fixture.h"
#include "warpfold/v1/segments.grpc.pb.h"

namespace warpfold::server {
namespace {

const Spec kSpec = {.operators = {"sum", "argmax"}};  // three columns
constexpr std::size_t kColumns = 3;
constexpr std::uint64_t kBytes = 500'000;
constexpr std::uint64_t kOffset = 24;

class GpuResultsTest : public MemorySocketTest {
 protected:
  GpuResultsTest() : values_(Iota(60'000)) {
    // More than a sum of int32 can overflow.
    for (std::size_t i = 0; i < values_.size(); i += 7) values_[i] = static_cast<std::int32_t>(i * 7919);
    memory_.emplace(*Register(0, MemoryAccess::kReadWrite));
  }

  absl::StatusOr<RegisteredMemory> Register(std::uint64_t byte_offset, MemoryAccess access) {
    const std::vector<std::byte> handle(64);
    return connection_->RegisterGpu(
        {.handle = handle, .pci_bus_id = "0000:0f:00.0", .byte_offset = byte_offset, .byte_count = kBytes},
        access);
  }

  absl::StatusOr<SegmentTable> Reduce(const ArrayReference& array, const SegmentCut& cut,
                                      const Spec& spec = kSpec) {
    return Client::CollectSegments([&](const SegmentVisitor& visitor) {
      return client_.ReduceSegmentsReference(spec, ElementType::kInt32, array, cut, visitor);
    });
  }
  absl::StatusOr<SegmentTable> Send(const SegmentCut& cut) {
    return Client::CollectSegments([&](const SegmentVisitor& visitor) {
      return client_.ReduceSegmentsOf(kSpec, ElementType::kInt32, std::as_bytes(std::span(values_)), cut,
                                      visitor);
    });
  }

  std::span<const std::byte> OnGpu(const std::string& token) const {
    const auto found = service_.memories.Find(token, absl::Now());
    EXPECT_TRUE(found.ok()) << found.status();
    const kernels::Memory& memory = *(*found)->parts().front().memory;
    EXPECT_FALSE(memory.host_can_read());
    return {memory.data(), memory.size()};
  }

  // The columns must lie there, and nothing else may have been written since `before`.
  void ExpectWritten(const absl::StatusOr<SegmentTable>& table, const SegmentTable& expected,
                     std::vector<std::byte> before) {
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(table->failures, expected.failures);
    ASSERT_EQ(table->columns.size(), kColumns);
    const std::size_t column_bytes = expected.summary.segment_count * sizeof(std::uint64_t);
    for (std::size_t i = 0; i < kColumns; ++i) {
      EXPECT_TRUE(table->columns[i].bits.empty());
      std::memcpy(before.data() + kOffset + i * column_bytes, expected.columns[i].bits.data(), column_bytes);
    }
    EXPECT_TRUE(std::ranges::equal(OnGpu(memory_->token()), before));
  }

  std::vector<std::byte> Now() const {
    const std::span<const std::byte> bytes = OnGpu(memory_->token());
    return {bytes.begin(), bytes.end()};
  }

  std::vector<std::int32_t> values_;
  Client client_{server_->addresses()[0]};
  std::optional<RegisteredMemory> memory_;
};

// Slots write results of the segments that they reduce, and the host those of longer ones.
TEST_F(GpuResultsTest, HaveTheBitsOfThoseThatAreSent) {
  const std::vector<std::uint64_t> lengths = {3, 0, 40'000, 1, 1, 0, 9'995, 10'000, 0};
  const auto kept = client_.Put(values_);
  ASSERT_TRUE(kept.ok()) << kept.status();
  for (const bool slots_write : {true, false}) {
    backend_.behaviour.writes_results = slots_write;
    for (SegmentCut cut : {SegmentCut{.lengths = lengths}, SegmentCut{.length = 4},
                           SegmentCut{.length = 20'000}, SegmentCut{.length = 60'000}}) {
      SCOPED_TRACE(cut.length);
      const absl::StatusOr<SegmentTable> expected = Send(cut);
      ASSERT_TRUE(expected.ok()) << expected.status();
      cut.results = ResultsReference{.token = memory_->token(), .byte_offset = kOffset};
      std::vector<std::byte> before = Now();
      ExpectWritten(Send(cut), *expected, before);
      before = Now();
      ExpectWritten(Reduce(kept->whole(), cut), *expected, before);
    }
  }
  ExpectUnharmed();
}

// No bus is crossed, so that nothing is gained by starts that overlap: one takes all that fit.
TEST_F(GpuResultsTest, ComeFromOneStart) {
  backend_.behaviour.writes_results = true;
  backend_.behaviour.segment_capacity = 10'000;
  const auto kept = client_.Put(values_);
  ASSERT_TRUE(kept.ok()) << kept.status();
  const auto starts_of = [&](const SegmentCut& cut) {
    const int before = backend_.behaviour.starts;
    // Errors would need room.
    EXPECT_TRUE(
        Reduce(kept->part(0, 30'000), cut, {.operators = kSpec.operators, .wrap_overflow = true}).ok());
    return backend_.behaviour.starts - before;
  };
  EXPECT_EQ(starts_of({.length = 3, .results = ResultsReference{memory_->token()}}), 1);
  EXPECT_GT(starts_of({.length = 3}), 1);
}

TEST_F(GpuResultsTest, PlacesThatAreRefused) {
  const auto kept = client_.Put(values_);
  ASSERT_TRUE(kept.ok()) << kept.status();
  const auto field_of = [&](const std::string& token, std::uint64_t byte_offset) {
    const absl::Status status =
        Reduce(kept->whole(), {.length = 10, .results = ResultsReference{token, byte_offset}}).status();
    return status.ok() ? "" : GetErrorInfo(status)->metadata.at("field");
  };
  EXPECT_EQ(field_of(Register(0, MemoryAccess::kRead)->token(), 0), "results_reference.token");
  const std::uint64_t most = kBytes - values_.size() / 10 * kColumns * 8;
  EXPECT_EQ(field_of(memory_->token(), most), "");
  EXPECT_EQ(field_of(memory_->token(), most + 8), "results_reference.byte_offset");
  EXPECT_EQ(field_of(memory_->token(), 4), "results_reference.byte_offset");
  // The address counts.
  const auto odd = Register(4, MemoryAccess::kReadWrite);
  ASSERT_TRUE(odd.ok()) << odd.status();
  EXPECT_EQ(field_of(odd->token(), 4), "");
  EXPECT_EQ(field_of(odd->token(), 0), "results_reference.byte_offset");
  ExpectUnharmed();
}

// Not that it may be left out.
TEST_F(GpuResultsTest, AWrongNumberOfSegmentsIsToldTheRightOne) {
  const auto kept = client_.Put(values_);
  ASSERT_TRUE(kept.ok()) << kept.status();
  v1::ReduceSegmentsRequest request;
  v1::ReduceSegmentsHeader& header = *request.mutable_header();
  header.mutable_spec()->add_operators(v1::OPERATOR_SUM);
  header.mutable_spec()->set_element_type(v1::ELEMENT_TYPE_INT32);
  header.set_segment_length(100);
  header.set_expected_segment_count(601);
  header.mutable_reference()->set_token(kept->token);
  header.mutable_reference()->set_element_count(values_.size());
  for (const bool to_memory : {false, true}) {
    if (to_memory) header.mutable_results_reference()->set_token(memory_->token());
    grpc::ClientContext context;
    const auto stream = v1::SegmentService::NewStub(channel_)->ReduceSegments(&context);
    stream->Write(request);
    stream->WritesDone();
    v1::ReduceSegmentsResponse response;
    while (stream->Read(&response)) continue;
    const std::string message = stream->Finish().error_message();
    EXPECT_THAT(message, testing::HasSubstr("must be 600"));
    EXPECT_EQ(message.find("not set") == std::string::npos, to_memory) << message;
  }
}

TEST_F(GpuResultsTest, WhatTheDeviceDoesNotTakeFailsTheCall) {
  const auto kept = client_.Put(values_);
  ASSERT_TRUE(kept.ok()) << kept.status();
  backend_.writes_fail = true;
  for (const std::uint64_t length : {10, 60'000}) {
    const absl::Status status =
        Reduce(kept->whole(), {.length = length, .results = ResultsReference{memory_->token()}}).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  }
  backend_.writes_fail = false;
  EXPECT_TRUE(Reduce(kept->whole(), {.length = 10, .results = ResultsReference{memory_->token()}}).ok());
  ExpectUnharmed();
}

}  // namespace
}  // namespace warpfold::server

int main(int argc, char** argv) { return warpfold::server::SealOrTest(argc, argv); }
