// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Segments over gRPC: with the client library, and with clients that misbehave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "client/client.h"
#include "client/error.h"
#include "tests/server/drive_segments.h"
#include "tests/server/rpc/rpc_fixture.h"
#include "warpfold/v1/segments.grpc.pb.h"

namespace warpfold::server {
namespace {

using Stream = grpc::ClientReaderWriter<v1::ReduceSegmentsRequest, v1::ReduceSegmentsResponse>;

class SegmentsRpcTest : public RpcTest {
 protected:
  SegmentsRpcTest() { service_.residents.Open(backend_.AllocateOfEach(1 << 20), {.owner_bytes = 1 << 20}); }

  // Sends all, then reads all.
  grpc::Status Send(const std::vector<v1::ReduceSegmentsRequest>& requests) {
    grpc::ClientContext context;
    const std::unique_ptr<Stream> stream = segments_->ReduceSegments(&context);
    for (const v1::ReduceSegmentsRequest& request : requests) {
      if (!stream->Write(request)) break;
    }
    stream->WritesDone();
    reader_ = SegmentReader();
    v1::ReduceSegmentsResponse response;
    while (stream->Read(&response)) EXPECT_TRUE(reader_.Add(response.SerializeAsString()));
    return stream->Finish();
  }

  // An array of segments of one byte each, which have 16 bytes of results each.
  static SegmentedArray Bytes(std::size_t count) {
    SegmentedArray array = {
        .header = SegmentsHeader({v1::OPERATOR_SUM, v1::OPERATOR_MAX}, v1::ELEMENT_TYPE_UINT8),
        .data = std::string(count, '\3'),
        .lengths = std::vector<std::uint64_t>(count, 1)};
    array.header.set_segment_length(1);
    return array;
  }

  // Sends one chunk after the other, whatever comes back, and counts those that were taken.
  static void WriteUntilRefused(Stream& stream, std::atomic<int>& written) {
    const SegmentedArray array = Bytes(100'000);
    v1::ReduceSegmentsRequest header;
    *header.mutable_header() = array.header;
    v1::ReduceSegmentsRequest chunk;
    chunk.mutable_chunk()->set_data(array.data);
    stream.Write(header);
    while (stream.Write(chunk)) ++written;
  }

  const std::unique_ptr<v1::SegmentService::Stub> segments_ = v1::SegmentService::NewStub(channel_);
  Client client_{server_->addresses()[0]};
  SegmentReader reader_;
};

std::vector<float> Floats(std::size_t count) {
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp)
  std::lognormal_distribution<float> sizes(0, 20);
  std::vector<float> values(count);
  for (float& value : values) value = sizes(random);
  return values;
}

const Spec kSpec = {.operators = {"sum", "argmax", "minmax", "max_subarray_sum"}};

std::vector<OperatorResult> RowOf(const SegmentTable& table, std::uint64_t segment) {
  std::vector<SegmentColumn> columns;
  std::vector<std::uint64_t> values;
  for (const SegmentTable::Column& column : table.columns) {
    columns.push_back(column);
    values.push_back(column.bits[segment]);
  }
  const warpfold::SegmentResults results = {.first_segment = segment,
                                            .segment_count = 1,
                                            .columns = columns,
                                            .values = values,
                                            .failures = table.failures};
  return results.Row(0);
}

// The rows are the same as what a call for each segment returns.
void ExpectCallsAgree(Client& client, const std::vector<float>& values,
                      std::span<const std::uint64_t> lengths, const SegmentTable& table) {
  ASSERT_EQ(table.summary.segment_count, lengths.size());
  std::size_t at = 0;
  for (std::size_t segment = 0; segment < lengths.size(); ++segment) {
    const std::span<const float> part = std::span(values).subspan(at, lengths[segment]);
    at += lengths[segment];
    const std::vector<OperatorResult> row = RowOf(table, segment);
    for (std::size_t op = 0; op < kSpec.operators.size(); ++op) {
      const auto alone = client.Reduce({.operators = {kSpec.operators[op]}}, part);
      EXPECT_EQ(row[op].status.code(), alone.status().code());
      if (!alone.ok()) continue;
      EXPECT_EQ(row[op].value, alone->results[0].value);
      EXPECT_EQ(row[op].index, alone->results[0].index);
      EXPECT_EQ(row[op].end_index, alone->results[0].end_index);
    }
  }
}

TEST_F(SegmentsRpcTest, TheClientsRowsAreThoseOfCalls) {
  const std::vector<std::uint64_t> lengths = {3, 0, 40'000, 1, 1, 0, 9'995, 20'000, 0};
  const std::vector<float> values = Floats(70'000);
  for (const std::size_t chunk_bytes : {0, 4096}) {
    const auto ragged = client_.ReduceSegments(kSpec, values, {.lengths = lengths},
                                               {.chunk_bytes = chunk_bytes, .checksum = true});
    ASSERT_TRUE(ragged.ok()) << ragged.status();
    EXPECT_EQ(ragged->failures.size(), 9u);
    ExpectCallsAgree(client_, values, lengths, *ragged);
    const auto rows = client_.ReduceSegments(kSpec, values, {.length = 700}, {.chunk_bytes = chunk_bytes});
    ASSERT_TRUE(rows.ok()) << rows.status();
    ExpectCallsAgree(client_, values, std::vector<std::uint64_t>(100, 700), *rows);
  }
  ExpectUnharmed();
}

TEST_F(SegmentsRpcTest, AnArrayThatIsKept) {
  const std::vector<float> values = Floats(70'000);
  const auto kept = client_.Put(values);
  ASSERT_TRUE(kept.ok()) << kept.status();
  const std::vector<std::uint64_t> lengths = {0, 60'000, 5, 9'995, 0};
  for (const SegmentCut& cut : {SegmentCut{.lengths = lengths}, SegmentCut{.length = 35'000}}) {
    const auto table = Client::CollectSegments([&](const SegmentVisitor& visitor) {
      return client_.ReduceSegmentsReference(kSpec, ElementType::kFloat32, kept->whole(), cut, visitor);
    });
    ASSERT_TRUE(table.ok()) << table.status();
    ExpectCallsAgree(client_, values, cut.length != 0 ? std::vector<std::uint64_t>(2, 35'000) : lengths,
                     *table);
  }
  EXPECT_TRUE(client_.DeleteArray(kept->token).ok());
  ExpectUnharmed();
}

TEST_F(SegmentsRpcTest, ManySegmentsEachWayAtOnce) {
  const std::vector<std::uint8_t> values(500'000, 3);
  std::uint64_t rows = 0;
  const auto summary = client_.ReduceSegmentsOf({.operators = {"sum", "max"}}, ElementType::kUint8,
                                                std::as_bytes(std::span(values)), {.length = 1},
                                                [&](const warpfold::SegmentResults& results) {
                                                  EXPECT_EQ(results.first_segment, rows);
                                                  rows += results.segment_count;
                                                  for (const std::uint64_t value : results.values)
                                                    EXPECT_EQ(value, 3u);
                                                });
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(rows, values.size());
  ExpectUnharmed();
}

TEST_F(SegmentsRpcTest, CutsThatAreRefusedAtOnce) {
  const std::vector<float> values(10);
  const std::vector<std::uint64_t> lengths = {5, 6};
  for (const SegmentCut& cut : {SegmentCut{.length = 3}, SegmentCut{.lengths = lengths}, SegmentCut{},
                                SegmentCut{.length = 5, .lengths = lengths}}) {
    const auto table = client_.ReduceSegments(kSpec, values, cut);
    EXPECT_EQ(GetErrorInfo(table.status())->reason, "BAD_HEADER");
  }
  const auto matrices = client_.ReduceSegments({.operators = {"sum"}, .matrix_shape = MatrixShape{1, 2}},
                                               values, {.length = 5});
  EXPECT_EQ(GetErrorInfo(matrices.status())->metadata["field"], "matrix_shape");
}

TEST_F(SegmentsRpcTest, ACancelledCallEnds) {
  const std::vector<std::uint8_t> values(200'000, 3);
  std::stop_source stop;
  const auto summary = client_.ReduceSegmentsOf(
      {.operators = {"sum"}}, ElementType::kUint8, std::as_bytes(std::span(values)), {.length = 1},
      [&](const warpfold::SegmentResults&) { stop.request_stop(); }, {.stop = stop.get_token()});
  EXPECT_EQ(summary.status().code(), absl::StatusCode::kCancelled);
  ExpectUnharmed();
}

// Another server could respond, but results that were handed on are not handed on again.
TEST_F(SegmentsRpcTest, AServerThatGoesInTheMiddle) {
  FakeBackend other_backend;
  Service other_service(other_backend, kLimits, service_.clock);
  const auto other = RpcServer::Start(other_service, {.listen = {"127.0.0.1:0"}, .tls = std::nullopt});
  ASSERT_TRUE(other.ok()) << other.status();
  Client client({server_->addresses()[0], (*other)->addresses()[0]});
  const std::vector<std::uint8_t> values(2'000'000, 3);
  std::uint64_t rows = 0;
  std::thread drain;
  const auto summary =
      client.ReduceSegmentsOf({.operators = {"sum"}}, ElementType::kUint8, std::as_bytes(std::span(values)),
                              {.length = 1}, [&](const warpfold::SegmentResults& results) {
                                EXPECT_EQ(results.first_segment, rows);
                                rows += results.segment_count;
                                if (rows > 0 && !drain.joinable()) {
                                  drain = std::thread([this] { server_->Drain(absl::ZeroDuration()); });
                                }
                              });
  drain.join();
  EXPECT_EQ(GetErrorInfo(summary.status())->reason, "DRAINING");
  EXPECT_EQ(other_backend.behaviour.starts, 0);
}

TEST_F(SegmentsRpcTest, NoCommitNoStatusOk) {
  const SegmentedArray array = Bytes(1000);
  auto requests = array.Requests({300, 600});
  ASSERT_TRUE(Send(requests).ok());
  EXPECT_TRUE(reader_.has_summary());
  EXPECT_TRUE(reader_.rows() == array.Expected());
  requests.pop_back();
  EXPECT_EQ(Reason(Send(requests)), "NO_COMMIT");
  EXPECT_FALSE(reader_.has_summary());
  ExpectUnharmed();
}

TEST_F(SegmentsRpcTest, MessagesThatAreTooLarge) {
  std::vector<v1::ReduceSegmentsRequest> requests(2);
  *requests[0].mutable_header() = SegmentsHeader({v1::OPERATOR_SUM});
  requests[1].mutable_lengths()->set_lengths(std::string(5 << 20, '\0'));
  EXPECT_EQ(Reason(Send(requests)), "MESSAGE_TOO_LARGE");
  requests[1].mutable_lengths()->set_lengths(std::string(2 << 20, '\0'));
  EXPECT_EQ(Reason(Send(requests)), "TOO_MANY_LENGTHS");
  requests[0].mutable_header()->set_segment_length(1);
  requests[1].mutable_chunk()->set_data(std::string(5 << 20, '\0'));
  EXPECT_EQ(Reason(Send(requests)), "MESSAGE_TOO_LARGE");
  ExpectUnharmed();
}

TEST_F(SegmentsRpcTest, ClientsThatAreKilled) {
  const auto requests = Bytes(100'000).Requests({10'000, 50'000});
  for (std::size_t messages = 0; messages < 2 * requests.size(); ++messages) {
    grpc::ClientContext context;
    const std::unique_ptr<Stream> stream = segments_->ReduceSegments(&context);
    for (std::size_t i = 0; i < std::min(messages, requests.size()); ++i) stream->Write(requests[i]);
    v1::ReduceSegmentsResponse response;
    for (std::size_t i = 0; i < messages / 2; ++i) {
      if (messages >= 2) stream->Read(&response);
    }
    context.TryCancel();
    EXPECT_FALSE(stream->Finish().ok());
  }
  ExpectUnharmed();
}

// A client sends without reading: the server stops reading from it, ends it, and at last cuts it off.
TEST_F(SegmentsRpcTest, AClientThatTakesNoResults) {
  grpc::ClientContext context;
  const std::unique_ptr<Stream> stream = segments_->ReduceSegments(&context);
  std::atomic<int> written = 0;
  std::thread writer([&] { WriteUntilRefused(*stream, written); });
  Await([&] { return written > 3; });
  WhileTimePasses(1, [&] {
    writer.join();
    return true;
  });
  // 16 bytes of results for each byte: some megabytes of them were sent or wait, and no more. What else is
  // written fills the windows of the connection, which a newer gRPC makes larger.
  EXPECT_LT(written, 200);
  WhileTimePasses(1, [&] {
    Await([&] { return server_->in_progress() == 0; });
    return true;
  });
  v1::ReduceSegmentsResponse response;
  while (stream->Read(&response)) continue;
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(Reason(status) == "IDLE" || status.error_code() == grpc::StatusCode::CANCELLED)
      << status.error_message();
  ExpectUnharmed();
}

// The end of the server waits for such a client for less than a second, and not for its idle limit.
TEST_F(SegmentsRpcTest, TheEndDoesNotWaitForAClientThatTakesNoResults) {
  grpc::ClientContext context;
  const std::unique_ptr<Stream> stream = segments_->ReduceSegments(&context);
  std::atomic<int> written = 0;
  std::thread writer([&] { WriteUntilRefused(*stream, written); });
  // Until the server stops reading from it, since its results have filled the connection.
  for (int seen = -1; written < 4 || seen != written; std::this_thread::sleep_for(std::chrono::seconds(1))) {
    seen = written;
  }
  std::atomic<bool> drained = false;
  std::thread drain([&] {
    server_->Drain(absl::ZeroDuration());
    drained = true;
  });
  const std::int64_t begin_ms = now_ms_;
  while (!drained) {
    now_ms_ += 10;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  drain.join();
  writer.join();
  EXPECT_LT(absl::Milliseconds(now_ms_ - begin_ms), kLimits.call.idle);
}

}  // namespace
}  // namespace warpfold::server
