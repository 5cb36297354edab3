// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The client with a server that records: what is sent, and what comes back.
#include "client/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "client/calls/array_stream.h"
#include "client/error.h"
#include "proto/crc32c.h"
#include "tests/client/fake_service.h"

namespace warpfold {
namespace {

std::vector<std::int32_t> Iota(std::size_t n) {
  std::vector<std::int32_t> values(n);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

std::int64_t SumOfIota(std::int64_t n) { return n * (n - 1) / 2; }

std::string BytesOf(const std::vector<std::int32_t>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4);
}

class ClientTest : public testing::Test {
 protected:
  FakeService service_;
  FakeServer server_{service_};
  Client client_{server_.target(), {.connections = 4}};
};

TEST_F(ClientTest, SumOfASmallVectorIsOneLine) {
  const absl::StatusOr<std::int64_t> sum = client_.Reduce(kSum, std::vector<std::int32_t>{3, 1, 4, 1, 5});
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(*sum, 14);
  EXPECT_TRUE(service_.calls().front().small);
}

TEST_F(ClientTest, LongLongIsAnInteger) {
  const std::vector<long long> values = {-3, 1};
  // The service counts elements of four bytes, so its result is a different one.
  EXPECT_TRUE(absl::IsInternal(client_.Reduce(kSum, values).status()));
  const SeenCall call = service_.calls().front();
  EXPECT_EQ(call.header.spec().element_type(), v1::ELEMENT_TYPE_INT64);
  EXPECT_EQ(call.data, std::string(reinterpret_cast<const char*>(values.data()), 16));
  static_assert(std::same_as<AnswerFor<Answer::kElement, long long>, std::int64_t>);
  static_assert(std::same_as<AnswerFor<Answer::kLocated, unsigned long long>, Located<std::uint64_t>>);
}

TEST_F(ClientTest, EmptyArrayIsAnArray) {
  const absl::StatusOr<std::int64_t> sum = client_.Reduce(kSum, std::vector<std::int32_t>());
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(*sum, 0);
}

TEST_F(ClientTest, LargeArrayIsStreamedWhole) {
  const std::vector<std::int32_t> values = Iota(700'001);
  const absl::StatusOr<Reduction> reduction =
      client_.Reduce(Spec{.operators = {"sum"}}, values, {.request_id = "night-run"});
  ASSERT_TRUE(reduction.ok()) << reduction.status();
  EXPECT_EQ(*reduction->results.at(0).As<std::int64_t>(), SumOfIota(700'001));
  EXPECT_EQ(reduction->element_count, 700'001u);
  EXPECT_EQ(reduction->device, "fake");
  EXPECT_EQ(reduction->timings.kernel, absl::Microseconds(1));

  const SeenCall call = service_.calls().at(0);
  EXPECT_FALSE(call.small);
  EXPECT_EQ(call.data, BytesOf(values));
  EXPECT_EQ(call.header.expected_element_count(), 700'001u);
  EXPECT_EQ(call.header.request_id(), "night-run");
  EXPECT_FALSE(call.header.return_state());
  EXPECT_EQ(call.commit.element_count(), 700'001u);
  EXPECT_FALSE(call.commit.has_crc32c());
  EXPECT_EQ(call.chunks.size(), (call.data.size() + kChunkBytes - 1) / kChunkBytes);
}

TEST_F(ClientTest, ChunksHaveTheBytesAskedFor) {
  const std::vector<std::int32_t> values = Iota(70'000);
  const Spec spec{.operators = {"sum"}};
  ASSERT_TRUE(client_.Reduce(spec, values, {.chunk_bytes = 1 << 16}).ok());
  const SeenCall call = service_.calls().at(0);
  EXPECT_EQ(call.data, BytesOf(values));
  ASSERT_EQ(call.chunks.size(), 5u);
}

TEST_F(ClientTest, ChecksumCoversTheWhole) {
  const std::vector<std::int32_t> values = Iota(300'000);
  ASSERT_TRUE(client_.Reduce(Spec{.operators = {"sum"}}, values, {.checksum = true}).ok());
  const SeenCall call = service_.calls().at(0);
  const auto bytes = std::as_bytes(std::span(values));
  EXPECT_EQ(call.commit.crc32c(), proto::ComputeCrc32c(bytes));
  EXPECT_TRUE(call.header.with_crc32c());
  ASSERT_EQ(call.chunks.size(), 2u);
  EXPECT_FALSE(call.chunks[0].has_crc32c() || call.chunks[1].has_crc32c());
}

TEST_F(ClientTest, StripesAreAdjacentAndMergedInOrder) {
  const std::vector<std::int32_t> values = Iota(1'000'003);
  for (int streams = 1; streams <= 4; ++streams) {
    const absl::StatusOr<std::int64_t> sum = client_.Reduce(kSum, values, {.streams = streams});
    ASSERT_TRUE(sum.ok()) << sum.status();
    EXPECT_EQ(*sum, SumOfIota(1'000'003)) << streams;
  }
  EXPECT_EQ(service_.calls().size(), 1u + 2 + 3 + 4);
}

TEST_F(ClientTest, StatesThatNoMessageHoldsAreMergedInGroups) {
  Client client(server_.target(), {.connections = 16});
  // Together 10 KiB more than a message may have; then two of them nearly fill it.
  for (const std::size_t state_bytes : {std::size_t{266'752}, std::size_t{2'000'000}}) {
    service_.state_bytes = state_bytes;
    const absl::StatusOr<Reduction> reduction =
        client.Reduce(Spec{.operators = {"sum"}}, Iota(1'000'003), {.streams = 16});
    ASSERT_TRUE(reduction.ok()) << reduction.status();
    EXPECT_EQ(*reduction->results.at(0).As<std::int64_t>(), SumOfIota(1'000'003)) << state_bytes;
    EXPECT_EQ(reduction->element_count, 1'000'003u);
  }
}

TEST_F(ClientTest, GeneratedArrayIsTheSameOnAnyNumberOfStreams) {
  const auto iota = [](std::uint64_t offset, std::span<std::byte> buffer) {
    for (std::size_t i = 0; i < buffer.size(); i += 4) {
      const auto value = static_cast<std::int32_t>((offset + i) / 4);
      std::memcpy(&buffer[i], &value, 4);
    }
  };
  for (const int streams : {1, 3}) {
    const absl::StatusOr<Reduction> reduction = client_.ReduceGenerated(
        {.operators = {"sum"}}, ElementType::kInt32, 4'000'000, iota, {.streams = streams});
    ASSERT_TRUE(reduction.ok()) << reduction.status();
    EXPECT_EQ(*reduction->results.at(0).As<std::int64_t>(), SumOfIota(1'000'000));
  }
}

TEST_F(ClientTest, ProgressAddsUpToTheArray) {
  for (const int streams : {1, 4}) {
    std::atomic<std::uint64_t> sent = 0;
    const auto add = [&sent](std::uint64_t bytes) { sent += bytes; };
    ASSERT_TRUE(client_.Reduce(kSum, Iota(1'000'000), {.streams = streams, .on_sent = add}).ok());
    EXPECT_EQ(sent, 4'000'000u);
  }
}

TEST_F(ClientTest, WriterTakesAnyCut) {
  const std::string bytes = BytesOf(Iota(800'000));
  for (const std::size_t cut : {3u, 4096u, 1u << 20, 3'200'000u}) {
    absl::StatusOr<Writer> writer = client_.OpenWriter({.operators = {"sum"}}, ElementType::kInt32);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (std::size_t offset = 0; offset < bytes.size(); offset += cut) {
      // A copy that dies at once: Write must not keep a pointer to it.
      const std::string piece = bytes.substr(offset, cut);
      ASSERT_TRUE(writer->Write(std::as_bytes(std::span(piece))).ok());
    }
    const absl::StatusOr<Reduction> reduction = writer->Commit();
    ASSERT_TRUE(reduction.ok()) << reduction.status();
    EXPECT_EQ(*reduction->results.at(0).As<std::int64_t>(), SumOfIota(800'000)) << cut;
    EXPECT_EQ(service_.calls().back().data, bytes);
  }
}

// Waits for data whose arrival nothing else reports.
bool Soon(const std::atomic<std::size_t>& bytes, std::size_t expected) {
  const absl::Time end = absl::Now() + absl::Seconds(30);
  while (bytes != expected && absl::Now() < end) absl::SleepFor(absl::Milliseconds(1));
  return bytes == expected;
}

TEST_F(ClientTest, WriterSendsLittleWhenItIsFlushedAndWhenItIsOld) {
  std::atomic<std::size_t> arrived = 0;
  service_.on_chunk = [&](const SeenCall& call, grpc::ServerContext&) {
    arrived = call.data.size();
    return grpc::Status::OK;
  };
  absl::StatusOr<Writer> writer = client_.OpenWriter({.operators = {"sum"}}, ElementType::kInt32);
  ASSERT_TRUE(writer.ok());
  const std::vector<std::byte> piece(4);
  ASSERT_TRUE(writer->Write(piece).ok());
  ASSERT_TRUE(writer->Flush().ok());
  EXPECT_TRUE(Soon(arrived, 4));

  ASSERT_TRUE(writer->Write(piece).ok());
  EXPECT_FALSE(writer->AwaitEnd(absl::Milliseconds(600)));
  ASSERT_TRUE(writer->Write(piece).ok());
  EXPECT_TRUE(Soon(arrived, 12));

  const absl::StatusOr<Reduction> reduction = writer->Commit();
  ASSERT_TRUE(reduction.ok()) << reduction.status();
  EXPECT_EQ(reduction->element_count, 3u);
}

TEST_F(ClientTest, WriterTakesNothingAfterItsCommit) {
  absl::StatusOr<Writer> writer = client_.OpenWriter({.operators = {"sum"}}, ElementType::kInt32);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->Commit().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(writer->Write(std::vector<std::byte>(4))));
  EXPECT_TRUE(absl::IsFailedPrecondition(writer->Flush()));
  EXPECT_EQ(writer->Commit()->element_count, 0u);
}

TEST_F(ClientTest, WriterWithoutCommitIsCancelled) {
  std::atomic<bool> started = false;
  std::atomic<bool> cancelled = false;
  service_.on_chunk = [&](const SeenCall&, grpc::ServerContext& context) {
    started = true;
    while (!context.IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
    cancelled = true;
    return grpc::Status::CANCELLED;
  };
  {
    absl::StatusOr<Writer> writer = client_.OpenWriter({.operators = {"sum"}}, ElementType::kInt32);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->Write(std::vector<std::byte>(kChunkBytes)).ok());
    ASSERT_TRUE(writer->Flush().ok());
    while (!started) absl::SleepFor(absl::Milliseconds(1));
  }
  while (!cancelled) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_TRUE(service_.calls().empty());
}

TEST_F(ClientTest, AsksForInformationAndHealth) {
  const absl::StatusOr<v1::GetServerInfoResponse> info = client_.GetServerInfo();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->version(), "fake");
  const absl::StatusOr<bool> serving = client_.IsServing();
  ASSERT_TRUE(serving.ok()) << serving.status();
  EXPECT_TRUE(*serving);
}

}  // namespace
}  // namespace warpfold
