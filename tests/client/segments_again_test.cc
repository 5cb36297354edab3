// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// When segments are sent again. gRPC takes a small array even for a connection that is broken, such as one to
// a server that was restarted meanwhile, and reports the failure only afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "client/calls/segment_check.h"
#include "client/client.h"
#include "proto/limits.h"
#include "tests/client/fake_service.h"
#include "warpfold/v1/segments.grpc.pb.h"

namespace warpfold {
namespace {

const Spec kSumSpec = {.operators = {"sum"}};

// Returns the number of the call as the sum of each segment. Its first call fails once it has read a number
// of chunks, or once it has sent results.
class FakeSegments final : public v1::SegmentService::Service {
 public:
  int fails_after_chunks = 1;
  bool sends_results_first = false;
  bool cancels = false;  // the calls that fail, without a word
  std::atomic<int> started = 0;

  grpc::Status ReduceSegments(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::ReduceSegmentsResponse, v1::ReduceSegmentsRequest>* stream) override {
    const std::uint64_t call = ++started;
    const bool fails = call == 1;
    v1::ReduceSegmentsRequest request;
    EXPECT_TRUE(stream->Read(&request) && request.has_header());
    const v1::ReduceSegmentsHeader header = request.header();
    int chunks = 0;
    while (stream->Read(&request)) {
      if (request.has_chunk()) ++chunks;
      if (fails && !sends_results_first && chunks == fails_after_chunks) return Broken();
    }
    const std::uint64_t count = header.expected_segment_count();
    v1::ReduceSegmentsResponse response;
    *response.mutable_layout() = LayoutOf(header.spec());
    stream->Write(response);
    response.mutable_results()->set_segment_count(count);
    const std::vector<std::uint64_t> values(count, call);
    response.mutable_results()->set_values(values.data(), count * sizeof(std::uint64_t));
    stream->Write(response);
    if (fails && cancels) context->TryCancel();
    if (fails) return Broken();
    response.mutable_summary()->set_segment_count(count);
    response.mutable_summary()->set_element_count(header.has_reference() ? header.reference().element_count()
                                                                         : header.expected_element_count());
    stream->Write(response);
    return grpc::Status::OK;
  }

 private:
  static grpc::Status Broken() { return {grpc::StatusCode::UNAVAILABLE, "Broken pipe"}; }
};

class SegmentsAgainTest : public testing::Test {
 protected:
  absl::Status StatusFor(std::uint64_t bytes) {
    const std::vector<std::uint8_t> values(bytes, 1);
    return client_.ReduceSegments(kSumSpec, values, {.length = 16}).status();
  }

  FakeSegments service_;
  FakeServer server_{service_};
  Client client_{server_.target(), {.backoff = absl::Milliseconds(5)}};
};

TEST_F(SegmentsAgainTest, ASmallArrayIsSentAgain) {
  const absl::Status status = StatusFor(kSmallArrayBytes);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(service_.started, 2);
}

TEST_F(SegmentsAgainTest, AndALargerOneOfWhichTheServerHadAPart) {
  service_.fails_after_chunks = 3;
  const absl::Status status = StatusFor(4 << 20);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(service_.started, 2);
}

TEST_F(SegmentsAgainTest, NoneIsOfWhichAVisitorHasResults) {
  service_.sends_results_first = true;
  const std::vector<std::uint8_t> values(160, 1);
  const auto summary =
      client_.ReduceSegmentsOf(kSumSpec, ElementType::kUint8, std::as_bytes(std::span(values)),
                               {.length = 16}, [](const SegmentResults&) {});
  EXPECT_TRUE(absl::IsUnavailable(summary.status())) << summary.status();
  EXPECT_EQ(service_.started, 1);
}

// gRPC ends calls so whose client takes no results: another attempt would end likewise. Without results, such
// an end is that of a call that the server has not taken.
TEST_F(SegmentsAgainTest, NoneIsThatTheServerCancelsAfterItsResults) {
  service_.sends_results_first = true;
  service_.cancels = true;
  const std::vector<std::uint8_t> values(160, 1);
  int results = 0;
  const auto summary = client_.ReduceSegmentsOf(
      kSumSpec, ElementType::kUint8, std::as_bytes(std::span(values)), {.length = 16, .restarts = true},
      [&results](const SegmentResults& part) { results += static_cast<int>(part.segment_count); });
  EXPECT_TRUE(absl::IsCancelled(summary.status())) << summary.status();
  EXPECT_THAT(std::string(summary.status().message()), testing::HasSubstr("before its answer was complete"));
  EXPECT_EQ(results, 10);
  EXPECT_EQ(service_.started, 1);
}

TEST_F(SegmentsAgainTest, ATableBeginsAnew) {
  service_.sends_results_first = true;
  const std::vector<std::uint8_t> values(160, 1);
  const absl::StatusOr<SegmentTable> table = client_.ReduceSegments(kSumSpec, values, {.length = 16});
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_EQ(table->columns.size(), 1u);
  EXPECT_EQ(table->columns[0].bits, std::vector<std::uint64_t>(10, 2)) << "those of the second call alone";
  EXPECT_EQ(service_.started, 2);
}

// For example with a kept array, if only the connection is lost.
TEST_F(SegmentsAgainTest, SoDoesOneOfAReference) {
  service_.sends_results_first = true;
  const ArrayReference array = {.token = std::string(16, 't'), .element_count = 160};
  for (const bool restarts : {false, true}) {
    service_.started = 0;
    const absl::StatusOr<SegmentTable> table = Client::CollectSegments([&](const SegmentVisitor& visitor) {
      return client_.ReduceSegmentsReference(kSumSpec, ElementType::kUint8, array,
                                             {.length = 16, .restarts = restarts}, visitor);
    });
    EXPECT_EQ(table.ok(), restarts) << table.status();
    EXPECT_EQ(service_.started, restarts ? 2 : 1);
    if (table.ok()) {
      EXPECT_EQ(table->columns[0].bits, std::vector<std::uint64_t>(10, 2));
    }
  }
}

// A checksum needs a stream, too.
TEST(StreamAgainTest, ASmallArrayWithAChecksumIsSentAgain) {
  FakeService service;
  std::atomic<int> chunks = 0;
  service.on_chunk = [&chunks](const SeenCall&, grpc::ServerContext&) {
    return chunks++ == 0 ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "Broken pipe") : grpc::Status::OK;
  };
  const FakeServer server(service);
  Client client(server.target(), {.backoff = absl::Milliseconds(5)});
  const std::vector<std::int32_t> values(kSmallArrayBytes / sizeof(std::int32_t), 1);
  const absl::StatusOr<std::int64_t> sum = client.Reduce(kSum, values, {.checksum = true});
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(*sum, static_cast<std::int64_t>(values.size()));
  EXPECT_EQ(service.started(), 2);
}

}  // namespace
}  // namespace warpfold
