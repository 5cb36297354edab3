// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Many segments of a kept array: by several calls at once, from a server in this process that reduces on the
// CPU. The same as by one call, to the last bit and in the same order.
#include "client/calls/segment_parts.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "client/client.h"
#include "client/connections/grpc_process.h"
#include "client/error.h"
#include "kernels/devices.h"
#include "server/rpc/rpc_server.h"

namespace warpfold {
namespace {

constexpr std::uint64_t kSegments = 4 * kSegmentsOfAPart + 77;
const Spec kSpec = {.operators = {"sum", "argmin", "minmax"}};

class SegmentPartsTest : public testing::Test {
 protected:
  SegmentPartsTest() {
    LookUpCpuFrequency();
    std::string note;
    backend_ = kernels::MakeBackend("cpu", {.slots = 4, .slot_bytes = 64 << 10}, &note).value();
    service_ =
        std::make_unique<server::Service>(*backend_, server::Limits(), [] { return absl::UnixEpoch(); });
    constexpr std::uint64_t kPoolBytes = std::uint64_t{64} << 20;
    std::vector<std::unique_ptr<kernels::Memory>> memory;
    memory.push_back(backend_->Allocate(0, kPoolBytes).value());
    service_->residents.Open(std::move(memory), {.owner_bytes = kPoolBytes});
    server_ = server::RpcServer::Start(*service_, {.listen = {"127.0.0.1:0"}, .tls = std::nullopt}).value();
    client_ = std::make_unique<Client>(server_->addresses()[0]);
  }

  // An array of so many elements, which the server keeps.
  ArrayReference Put(std::uint64_t elements) {
    std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same array on every run
    std::lognormal_distribution<float> sizes(0, 20);
    std::vector<float> values(elements);
    for (float& value : values) value = sizes(random);
    const auto put = client_->Put(values);
    EXPECT_TRUE(put.ok()) << put.status();
    return {.token = put->token, .byte_offset = 0, .element_count = elements};
  }

  absl::StatusOr<SegmentSummary> Reduce(const ArrayReference& array, const SegmentCut& cut,
                                        const SegmentVisitor& visitor, const CallOptions& options = {}) {
    return client_->ReduceSegmentsReference(kSpec, ElementType::kFloat32, array, cut, visitor, options);
  }

  // All results, and whether they came in order.
  struct Seen {
    std::vector<std::vector<std::uint64_t>> columns;
    std::vector<SegmentFailure> failures;
    SegmentSummary summary;
  };
  Seen See(const ArrayReference& array, const SegmentCut& cut, int streams) {
    Seen seen;
    std::uint64_t next = 0;
    int beginnings = 0;
    const auto visitor = [&](const SegmentResults& results) {
      seen.columns.resize(results.columns.size());
      if (results.segment_count == 0) ++beginnings;
      EXPECT_EQ(results.first_segment, next);
      next += results.segment_count;
      for (std::size_t i = 0; i < seen.columns.size(); ++i) {
        const auto values = results.Column(i);
        seen.columns[i].insert(seen.columns[i].end(), values.begin(), values.end());
      }
      seen.failures.insert(seen.failures.end(), results.failures.begin(), results.failures.end());
    };
    const auto summary = Reduce(array, cut, visitor, {.streams = streams});
    EXPECT_TRUE(summary.ok()) << summary.status();
    if (summary.ok()) seen.summary = *summary;
    EXPECT_EQ(beginnings, 1);
    EXPECT_EQ(next, seen.summary.segment_count);
    return seen;
  }
  void ExpectSame(const ArrayReference& array, const SegmentCut& cut) {
    const Seen one = See(array, cut, 1);
    EXPECT_EQ(one.columns.size(), 5u);
    for (const int streams : {2, 4}) {
      const Seen several = See(array, cut, streams);
      EXPECT_EQ(several.columns, one.columns);
      EXPECT_EQ(several.failures, one.failures);
      EXPECT_EQ(several.summary.segment_count, one.summary.segment_count);
      EXPECT_EQ(several.summary.element_count, one.summary.element_count);
      EXPECT_EQ(several.summary.failure_count, one.summary.failure_count);
      EXPECT_EQ(several.summary.device, one.summary.device);
    }
  }
  std::uint64_t calls() const { return server_->reductions_in_progress(); }

  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<server::Service> service_;
  std::unique_ptr<server::RpcServer> server_;
  std::unique_ptr<Client> client_;
};

TEST_F(SegmentPartsTest, PartsAreAdjacentAndAsLongAsTheyMayBe) {
  const ArrayReference array = {.token = "t", .byte_offset = 8, .element_count = 3 * kSegments};
  const auto parts = CutIntoSegmentParts({.length = 3}, array, 4);
  ASSERT_EQ(parts.size(), 5u);
  std::uint64_t segment = 0;
  std::uint64_t byte = 8;
  for (const SegmentPart& part : parts) {
    EXPECT_EQ(part.first_segment, segment);
    EXPECT_EQ(part.reference.byte_offset, byte);
    EXPECT_EQ(part.reference.token, "t");
    EXPECT_EQ(part.cut.length, 3u);
    segment += part.reference.element_count / 3;
    byte += part.reference.element_count * 4;
  }
  EXPECT_EQ(segment, kSegments);
  EXPECT_EQ(parts.back().reference.element_count, 3u * 77);
}

TEST_F(SegmentPartsTest, SegmentsOfOneLengthAreThoseOfOneCall) {
  const ArrayReference array = Put(3 * kSegments);
  ExpectSame(array, {.length = 3});
}

// Some of them are empty, and have no value.
TEST_F(SegmentPartsTest, SegmentsOfAnyLengthsAreThoseOfOneCall) {
  std::vector<std::uint64_t> lengths(kSegments);
  std::uint64_t elements = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) elements += lengths[i] = i % 1000 == 999 ? 0 : 1 + i % 5;
  const ArrayReference array = Put(elements);
  ExpectSame(array, {.lengths = lengths});
  EXPECT_GT(See(array, {.lengths = lengths}, 0).summary.failure_count, 0u);
}

TEST_F(SegmentPartsTest, WhatAVisitorThrowsComesOut) {
  const ArrayReference array = Put(kSegments);
  int calls = 0;
  const auto visitor = [&calls](const SegmentResults& /*results*/) {
    if (++calls == 3) throw std::runtime_error("enough");
  };
  EXPECT_THROW(Reduce(array, {.length = 1}, visitor, {.streams = 4}).IgnoreError(), std::runtime_error);
  EXPECT_EQ(calls, 3);
  EXPECT_TRUE(Reduce(array, {.length = 1}, [](const SegmentResults&) {}, {.streams = 4}).ok());
}

TEST_F(SegmentPartsTest, AnEndIsHeard) {
  const ArrayReference array = Put(kSegments);
  const auto ignore = [](const SegmentResults& /*results*/) {};
  std::stop_source stop;
  const auto stops = [&stop](const SegmentResults& /*results*/) { stop.request_stop(); };
  EXPECT_TRUE(absl::IsCancelled(
      Reduce(array, {.length = 1}, stops, {.stop = stop.get_token(), .streams = 2}).status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      Reduce(array, {.length = 1}, ignore, {.timeout = absl::Microseconds(100), .streams = 4}).status()));
}

TEST_F(SegmentPartsTest, AnArrayThatGoesMeanwhileIsMissed) {
  const ArrayReference array = Put(16 * kSegments);
  bool is_deleted = false;
  const auto deletes = [&](const SegmentResults& results) {
    if (results.segment_count == 0 || is_deleted) return;
    is_deleted = true;
    EXPECT_TRUE(client_->DeleteArray(array.token).ok());
  };
  const absl::Status status = Reduce(array, {.length = 1}, deletes, {.streams = 2}).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_EQ(GetErrorInfo(status).value_or(ErrorInfo{}).reason, "UNKNOWN_MEMORY");
}

}  // namespace
}  // namespace warpfold
