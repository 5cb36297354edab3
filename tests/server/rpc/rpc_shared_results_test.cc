// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Results of segments that the server writes to memory that it shares with the client, instead of sending
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "client/client.h"
#include "client/error.h"
#include "client/shared_memory.h"
#include "server/core/references/results_memory.h"
#include "tests/server/memory/fake_seals.h"
#include "tests/server/rpc/memory_socket_fixture.h"
#include "warpfold/v1/segments.grpc.pb.h"

namespace warpfold::server {
namespace {

const Spec kSpec = {.operators = {"sum", "argmax"}};  // three columns
constexpr std::size_t kColumns = 3;
constexpr std::byte kUntouched{0x5a};

class SharedResultsTest : public MemorySocketTest {
 protected:
  SharedResultsTest() : values_(Iota(60'000)) {
    // More than a sum of int32 can overflow; argmax of no elements has no value.
    for (std::size_t i = 0; i < values_.size(); i += 7) values_[i] = static_cast<std::int32_t>(i * 7919);
    auto memory = connection_->Allocate(kMaxRegisteredBytes / 2, MemoryAccess::kReadWrite);
    EXPECT_TRUE(memory.ok()) << memory.status();
    memory_.emplace(*std::move(memory));
    std::ranges::fill(memory_->data(), kUntouched);
  }

  // Makes a call without and one with memory for results, and compares their results.
  template <class Reduce>
  void ExpectSame(SegmentCut cut, const Reduce& reduce) {
    const absl::StatusOr<SegmentTable> expected =
        Client::CollectSegments([&](const SegmentVisitor& visitor) { return reduce(cut, visitor); });
    ASSERT_TRUE(expected.ok()) << expected.status();
    constexpr std::uint64_t kOffset = 24;
    cut.results = ResultsReference{.token = memory_->token(), .byte_offset = kOffset};
    const absl::StatusOr<SegmentTable> table =
        Client::CollectSegments([&](const SegmentVisitor& visitor) { return reduce(cut, visitor); });
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(table->failures, expected->failures);
    EXPECT_EQ(table->summary.segment_count, expected->summary.segment_count);
    ASSERT_EQ(table->columns.size(), kColumns);
    const std::size_t column_bytes = expected->summary.segment_count * sizeof(std::uint64_t);
    std::vector<std::byte> in_memory(memory_->data().size(), kUntouched);
    for (std::size_t i = 0; i < kColumns; ++i) {
      EXPECT_TRUE(table->columns[i].bits.empty());
      std::memcpy(in_memory.data() + kOffset + i * column_bytes, expected->columns[i].bits.data(),
                  column_bytes);
    }
    EXPECT_TRUE(std::ranges::equal(memory_->data(), in_memory));
    std::ranges::fill(memory_->data(), kUntouched);
  }

  // The reason for which this header is rejected; the array is 60,000 elements of the client's memory.
  std::string Refusal(const v1::ReduceSegmentsHeader& header, std::string* field = nullptr) {
    grpc::ClientContext context;
    const auto stream = segments_->ReduceSegments(&context);
    v1::ReduceSegmentsRequest request;
    *request.mutable_header() = header;
    stream->Write(request);
    stream->WritesDone();
    v1::ReduceSegmentsResponse response;
    while (stream->Read(&response)) continue;
    const grpc::Status status = stream->Finish();
    if (field != nullptr) {
      google::rpc::Status details;
      google::rpc::ErrorInfo info;
      if (details.ParseFromString(status.error_details()) && details.details_size() > 0) {
        details.details(0).UnpackTo(&info);
      }
      *field = info.metadata().contains("field") ? info.metadata().at("field") : "";
    }
    return status.ok() ? "OK" : Reason(status);
  }

  v1::ReduceSegmentsHeader HeaderOf(const std::string& array) const {
    v1::ReduceSegmentsHeader header;
    header.mutable_spec()->add_operators(v1::OPERATOR_SUM);
    header.mutable_spec()->set_element_type(v1::ELEMENT_TYPE_INT32);
    header.set_segment_length(10);
    header.set_expected_segment_count(6000);
    header.mutable_reference()->set_token(array);
    header.mutable_reference()->set_element_count(60'000);
    header.mutable_results_reference()->set_token(memory_->token());
    return header;
  }

  // The server has it until then.
  void GiveMemoryBackBeforeTheDeviceEnds() {
    const std::uint64_t registered = socket_->registrar().registered_bytes();
    memory_.reset();
    const auto other = connection_->Allocate(4096);  // so that the server has read the farewell
    EXPECT_TRUE(other.ok()) << other.status();
    EXPECT_GE(socket_->registrar().registered_bytes(), registered);
    backend_.behaviour.SetBlocked(false);
    Await([&] { return socket_->registrar().registered_bytes() < registered; });
  }

  std::vector<std::int32_t> values_;
  Client client_{server_->addresses()[0]};
  const std::unique_ptr<v1::SegmentService::Stub> segments_ = v1::SegmentService::NewStub(channel_);
  std::optional<SharedMemory> memory_;
};

TEST_F(SharedResultsTest, HaveTheBitsOfThoseThatAreSent) {
  const std::vector<std::uint64_t> lengths = {3, 0, 40'000, 1, 1, 0, 9'995, 10'000, 0};
  const auto kept = client_.Put(values_);
  ASSERT_TRUE(kept.ok()) << kept.status();
  const auto registered = connection_->Allocate(values_.size() * 4);
  ASSERT_TRUE(registered.ok()) << registered.status();
  std::memcpy(registered->data().data(), values_.data(), values_.size() * 4);
  for (const bool device_writes : {false, true}) {
    backend_.behaviour.writes_results = device_writes;
    for (const SegmentCut& cut : {SegmentCut{.lengths = lengths}, SegmentCut{.length = 4},
                                  SegmentCut{.length = 20'000}, SegmentCut{.length = 60'000}}) {
      SCOPED_TRACE(cut.length);
      for (const std::size_t chunk_bytes : {0, 4096}) {
        ExpectSame(cut, [&](const SegmentCut& of, const SegmentVisitor& visitor) {
          return client_.ReduceSegmentsOf(kSpec, ElementType::kInt32, std::as_bytes(std::span(values_)), of,
                                          visitor, {.chunk_bytes = chunk_bytes});
        });
      }
      for (const std::string& token : {kept->token, registered->token()}) {
        ExpectSame(cut, [&](const SegmentCut& of, const SegmentVisitor& visitor) {
          return client_.ReduceSegmentsReference(kSpec, ElementType::kInt32, {token, 0, 60'000}, of, visitor);
        });
      }
    }
  }
  ExpectUnharmed();
}

TEST_F(SharedResultsTest, ErrorsOfManySegmentsComeInMessages) {
  values_.assign(30'000, std::numeric_limits<std::int32_t>::max());
  const std::vector<std::uint64_t> lengths(20'000, 0);
  std::vector<std::uint64_t> all = lengths;
  all.push_back(values_.size());
  ExpectSame({.lengths = all}, [&](const SegmentCut& of, const SegmentVisitor& visitor) {
    return client_.ReduceSegmentsOf(kSpec, ElementType::kInt32, std::as_bytes(std::span(values_)), of,
                                    visitor);
  });
}

TEST_F(SharedResultsTest, OfNoSegments) {
  ExpectSame({}, [&](const SegmentCut& of, const SegmentVisitor& visitor) {
    return client_.ReduceSegmentsOf(kSpec, ElementType::kInt32, {}, of, visitor);
  });
}

TEST_F(SharedResultsTest, PlacesThatAreRefused) {
  const auto array = client_.Put(values_);
  ASSERT_TRUE(array.ok());
  const auto for_reading = connection_->Allocate(48'000);
  ASSERT_TRUE(for_reading.ok());
  const v1::ReduceSegmentsHeader good = HeaderOf(array->token);
  ASSERT_EQ(Refusal(good), "OK");
  std::string field;
  const auto refusal = [&](auto change) {
    v1::ReduceSegmentsHeader header = good;
    change(header);
    return Refusal(header, &field);
  };
  EXPECT_EQ(refusal([](auto& header) { header.clear_expected_segment_count(); }), "BAD_HEADER");
  EXPECT_EQ(field, "expected_segment_count");
  for (const std::string& token : {for_reading->token(), array->token}) {
    EXPECT_EQ(refusal([&](auto& header) { header.mutable_results_reference()->set_token(token); }),
              "BAD_HEADER");
    EXPECT_EQ(field, "results_reference.token");
  }
  for (const std::string& token : {std::string(), std::string(16, 'x')}) {
    EXPECT_EQ(refusal([&](auto& header) { header.mutable_results_reference()->set_token(token); }),
              "UNKNOWN_MEMORY");
    EXPECT_EQ(field, "results_reference.token");
  }
  const std::uint64_t room = memory_->data().size();
  EXPECT_EQ(refusal([&](auto& header) {
              header.mutable_results_reference()->set_byte_offset(room - std::uint64_t{6000} * 8);
            }),
            "OK");
  for (const std::uint64_t offset : {std::uint64_t{4}, room - std::uint64_t{6000} * 8 + 8, room, room + 8,
                                     ~std::uint64_t{7}, ~std::uint64_t{0}}) {
    EXPECT_EQ(refusal([&](auto& header) { header.mutable_results_reference()->set_byte_offset(offset); }),
              "BAD_HEADER")
        << offset;
    EXPECT_EQ(field, "results_reference.byte_offset");
  }
  // Whose results need more bytes than 64 bits can count.
  EXPECT_EQ(refusal([](auto& header) {
              header.clear_segment_length();
              header.set_expected_segment_count(std::uint64_t{1} << 61);
            }),
            "BAD_HEADER");
  ExpectUnharmed();
}

// Segments that were not announced have no room.
TEST_F(SharedResultsTest, MoreSegmentsThanAnnouncedAreRefused) {
  const auto array = client_.Put(values_);
  ASSERT_TRUE(array.ok());
  v1::ReduceSegmentsHeader header = HeaderOf(array->token);
  header.set_expected_segment_count(5999);
  EXPECT_EQ(Refusal(header), "BAD_HEADER");
  header.clear_reference();
  for (const bool has_length : {true, false}) {
    grpc::ClientContext context;
    const auto stream = segments_->ReduceSegments(&context);
    v1::ReduceSegmentsRequest request;
    *request.mutable_header() = header;
    if (!has_length) request.mutable_header()->clear_segment_length();
    stream->Write(request);
    const std::vector<std::uint64_t> lengths(6000, 10);
    if (!has_length) {
      request.mutable_lengths()->set_lengths(lengths.data(), lengths.size() * 8);
      stream->Write(request);
    }
    request.mutable_chunk()->set_data(values_.data(), values_.size() * 4);
    stream->Write(request);
    stream->WritesDone();
    v1::ReduceSegmentsResponse response;
    while (stream->Read(&response)) continue;
    EXPECT_EQ(Reason(stream->Finish()), "COUNT_MISMATCH");
  }
  EXPECT_TRUE(std::ranges::all_of(memory_->data().subspan(5999 * 8),
                                  [](std::byte byte) { return byte == kUntouched; }));
  ExpectUnharmed();
}

TEST_F(SharedResultsTest, NeedOneServer) {
  Client two({server_->addresses()[0], server_->addresses()[0]});
  const absl::StatusOr<SegmentSummary> summary = two.ReduceSegmentsOf(
      kSpec, ElementType::kInt32, std::as_bytes(std::span(values_)),
      {.length = 10, .results = ResultsReference{memory_->token()}}, [](const warpfold::SegmentResults&) {});
  EXPECT_TRUE(absl::IsInvalidArgument(summary.status())) << summary.status();
}

// The memory stays until the device no longer writes there.
TEST_F(SharedResultsTest, MemoryThatIsGivenBackDuringACall) {
  const auto array = client_.Put(values_);
  ASSERT_TRUE(array.ok());
  backend_.behaviour.SetBlocked(true);
  absl::StatusOr<SegmentSummary> summary;
  const ResultsReference place = {memory_->token()};
  std::thread call([&] {
    summary = client_.ReduceSegmentsReference(kSpec, ElementType::kInt32, array->whole(),
                                              {.length = 10, .results = place},
                                              [](const warpfold::SegmentResults&) {});
  });
  Await([&] { return backend_.behaviour.working() > 0; });
  GiveMemoryBackBeforeTheDeviceEnds();
  call.join();
  EXPECT_TRUE(summary.ok()) << summary.status();
  ExpectUnharmed();
}

// What a call that was cancelled still makes the device write must not replace what a later one has written.
TEST_F(SharedResultsTest, ALaterCallWaitsForADeviceThatStillWrites) {
  const auto array = client_.Put(values_);
  ASSERT_TRUE(array.ok());
  backend_.behaviour.writes_results = true;
  backend_.behaviour.SetBlocked(true);
  const auto reduce = [&](const char* op, std::stop_token stop) {
    return client_
        .ReduceSegmentsReference({.operators = {op}}, ElementType::kInt32, array->whole(),
                                 {.length = 10, .results = ResultsReference{memory_->token()}},
                                 [](const warpfold::SegmentResults&) {}, {.stop = stop})
        .status();
  };
  std::stop_source stop;
  std::thread first([&] { EXPECT_TRUE(absl::IsCancelled(reduce("min", stop.get_token()))); });
  Await([&] { return backend_.behaviour.working() > 0; });
  stop.request_stop();
  first.join();
  Await([&] { return server_->in_progress() == 0; });
  // Only for the same place: that of 6,000 values.
  v1::ReduceSegmentsHeader header = HeaderOf(array->token);
  EXPECT_EQ(Refusal(header), "TOO_MANY_REDUCTIONS");
  header.mutable_results_reference()->set_byte_offset(5999 * 8);
  EXPECT_EQ(Refusal(header), "TOO_MANY_REDUCTIONS");
  absl::Status status;
  std::thread second([&] { status = reduce("max", {}); });
  absl::SleepFor(absl::Milliseconds(50));
  backend_.behaviour.SetBlocked(false);
  second.join();
  EXPECT_TRUE(status.ok()) << status;
  const auto* const written = reinterpret_cast<const std::int64_t*>(memory_->data().data());
  for (std::size_t i = 0; i < values_.size() / 10; ++i) {
    ASSERT_EQ(written[i], *std::max_element(values_.begin() + 10 * i, values_.begin() + 10 * i + 10));
  }
  ExpectUnharmed();
}

// Also if the call has ended before the device.
TEST_F(SharedResultsTest, MemoryOfACallThatWasCancelled) {
  const auto array = client_.Put(values_);
  ASSERT_TRUE(array.ok());
  backend_.behaviour.SetBlocked(true);
  std::stop_source stop;
  std::thread call([&] {
    const absl::StatusOr<SegmentSummary> summary =
        client_.ReduceSegmentsReference(kSpec, ElementType::kInt32, array->whole(),
                                        {.length = 10, .results = ResultsReference{memory_->token()}},
                                        [](const warpfold::SegmentResults&) {}, {.stop = stop.get_token()});
    EXPECT_TRUE(absl::IsCancelled(summary.status())) << summary.status();
  });
  Await([&] { return backend_.behaviour.working() > 0; });
  stop.request_stop();
  call.join();
  Await([&] { return server_->in_progress() == 0; });
  GiveMemoryBackBeforeTheDeviceEnds();
  ExpectUnharmed();
}

TEST_F(SharedResultsTest, TheirColumnsAreKnownBefore) {
  const auto columns =
      SegmentColumnsOf({.operators = {"describe", "argmin", "max_subarray_sum"}}, ElementType::kFloat32);
  ASSERT_TRUE(columns.ok()) << columns.status();
  const std::vector<float> values(10);
  const auto table = client_.ReduceSegments({.operators = {"describe", "argmin", "max_subarray_sum"}}, values,
                                            {.length = 5});
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_EQ(columns->size(), table->columns.size());
  for (std::size_t i = 0; i < columns->size(); ++i) {
    EXPECT_EQ((*columns)[i].name, table->columns[i].name);
    EXPECT_EQ((*columns)[i].field, table->columns[i].field);
    EXPECT_EQ((*columns)[i].kind, table->columns[i].kind);
    EXPECT_EQ((*columns)[i].content, table->columns[i].content);
  }
  EXPECT_FALSE(SegmentColumnsOf({.operators = {"nothing"}}, ElementType::kFloat32).ok());
  EXPECT_FALSE(
      SegmentColumnsOf({.operators = {"sum"}, .matrix_shape = MatrixShape{2, 2}}, ElementType::kFloat32)
          .ok());
}

}  // namespace
}  // namespace warpfold::server

int main(int argc, char** argv) { return warpfold::server::SealOrTest(argc, argv); }
