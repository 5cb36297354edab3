// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Segments on a device that the test controls: one that reads messages where they lie, one that fails, and
// one that still works when all clients are gone.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "tests/server/drive_segments.h"
#include "tests/server/drive_session.h"
#include "tests/server/fake_backend.h"
#include "tests/server/piece_heap.h"

namespace warpfold::server {
namespace {

using kernels::ErrorReason;

// A device that reads messages where they lie: they are held until it has read them, and no longer.
TEST(SegmentsDeviceTest, MessagesAreReadWhereTheyLie) {
  PieceHeap heap;
  FakeBackend backend(2);
  ASSERT_TRUE(backend.OpenPieces(heap.memory()).ok());
  Service service(backend, Limits(), [] { return absl::UnixEpoch(); });
  SlotPool pool(SlotsOf(backend));
  std::mt19937 random(4);  // NOLINT(cert-msc51-cpp): the same cuts on every run
  for (int round = 0; round < 200; ++round) {
    SegmentedArray array = {.header = SegmentsHeader({v1::OPERATOR_SUM, v1::OPERATOR_ARGMAX}),
                            .data = {},
                            .lengths = std::vector<std::uint64_t>(1 + random() % 60)};
    for (std::uint64_t& length : array.lengths)
      length = random() % 8 == 0 ? random() % 20'000 : random() % 3 == 0 ? 0 : random() % 900;
    const std::uint64_t count = std::accumulate(array.lengths.begin(), array.lengths.end(), std::uint64_t{0});
    for (std::uint64_t i = 0; i < count * 4; ++i) array.data.push_back(static_cast<char>(random()));
    std::vector<std::size_t> cuts(random() % 12);
    for (std::size_t& cut : cuts) cut = random() % (array.data.size() + 1);
    std::sort(cuts.begin(), cuts.end());
    const absl::StatusOr<SegmentRows> rows = DriveSegments(
        service, pool, array.Requests(cuts, 7),
        [&] {
          if (round % 2 == 0) RevokeLoans(pool);
        },
        [&](const std::string& bytes) { return heap.MessageIn(bytes, {bytes.size() / 2}, random() % 16); });
    ASSERT_TRUE(rows.ok()) << rows.status();
    ASSERT_TRUE(*rows == array.Expected()) << round;
    ASSERT_EQ(heap.held(), 0u) << round;
  }
  EXPECT_GT(backend.behaviour.piece_starts, 200);
  // The device is slow: messages that it has not read stay, even when the call is gone.
  backend.behaviour.SetBlocked(true);
  SegmentedArray array = {.header = SegmentsHeader({v1::OPERATOR_SUM}),
                          .data = std::string(40'000, '\1'),
                          .lengths = {5000, 5000}};
  {
    SegmentDriver driver(service, pool);
    for (const v1::ReduceSegmentsRequest& request : array.Requests({}, 2)) {
      driver.OnMessage(heap.MessageIn(request.SerializeAsString(), {}, 3));
    }
    driver.OnEnd();
    EXPECT_EQ(driver.need(), ArraySession::Need::kDevice);
    driver.session().Release();
  }
  EXPECT_EQ(heap.held(), 1u);
  backend.behaviour.SetBlocked(false);
  pool.Poll();
  EXPECT_EQ(heap.held(), 0u);
  EXPECT_EQ(backend.behaviour.misuses, 0);
}

// The number of pieces in which an array's rows are read. They come in one message, or in one more than there
// are `cuts`, each with other bytes in front of it.
std::size_t PiecesOf(std::uint64_t rows, std::uint64_t length, bool is_ragged,
                     const std::vector<std::size_t>& cuts = {}) {
  PieceHeap heap;
  FakeBackend backend(2);
  EXPECT_TRUE(backend.OpenPieces(heap.memory()).ok());
  Service service(backend, Limits(), [] { return absl::UnixEpoch(); });
  SlotPool pool(SlotsOf(backend));
  SegmentedArray array = {.header = SegmentsHeader({v1::OPERATOR_SUM, v1::OPERATOR_ARGMAX}),
                          .data = {},
                          .lengths = std::vector<std::uint64_t>(rows, length)};
  for (std::uint64_t i = 0; i < rows * length * 4; ++i) array.data.push_back(static_cast<char>(i * i / 7));
  if (!is_ragged) array.header.set_segment_length(length);
  const absl::StatusOr<SegmentRows> results = DriveSegments(
      service, pool, array.Requests(cuts, rows), [] {},
      [&](const std::string& bytes) { return heap.MessageIn(bytes, {}, 8); });
  EXPECT_TRUE(results.ok() && *results == array.Expected()) << results.status();
  EXPECT_EQ(backend.behaviour.misuses, 0);
  return backend.behaviour.pieces;
}

// A million rows must not become a million pieces, which the device would read one by one, or copy.
TEST(SegmentsDeviceTest, RowsOfAMessageAreOnePiece) {
  for (const bool is_ragged : {false, true}) {
    SCOPED_TRACE(is_ragged);
    EXPECT_EQ(PiecesOf(20, 256, is_ragged), 1u);
    // The first row is too short to hold its message for it, and is copied. The slot takes 100 segments.
    EXPECT_EQ(PiecesOf(90, 8, is_ragged), 2u);
    EXPECT_EQ(PiecesOf(150, 64, is_ragged), 4u);
    // If two messages share a row, both of its parts are long enough to hold the messages for them.
    EXPECT_EQ(PiecesOf(20, 512, is_ragged, {10 * 2048 + 1024}), 2u);
    // Here the second part is copied, and the rows after it are a separate piece.
    EXPECT_EQ(PiecesOf(20, 512, is_ragged, {10 * 2048 + 1500}), 3u);
  }
}

// Keeps the array's bytes on the device, and asks for its segments.
v1::ReduceSegmentsRequest RequestOfKept(const SegmentedArray& array, FakeBackend& backend, Service& service) {
  std::shared_ptr<kernels::Memory> memory = *backend.Allocate(0, array.data.size());
  std::copy_n(AsBytes(array.data).begin(), array.data.size(), const_cast<std::byte*>(memory->data()));
  v1::ReduceSegmentsRequest request;
  *request.mutable_header() = array.header;
  v1::ArrayReference& reference = *request.mutable_header()->mutable_reference();
  reference.set_token(service.memories.Add(std::make_shared<const NamedMemory>(
      std::vector<NamedMemory::Part>{{.memory = memory, .byte_count = array.data.size()}})));
  reference.set_element_count(array.data.size() / array.reduction().element_bytes());
  return request;
}

// While others have all slots, a kept array's segments are not finished.
TEST(SegmentsDeviceTest, SegmentsOfAKeptArrayWaitForASlot) {
  FakeBackend backend(2);
  Service service(backend, Limits(), [] { return absl::UnixEpoch(); });
  SlotPool pool(SlotsOf(backend));
  for (const bool is_ragged : {false, true}) {
    SegmentedArray array = {.header = SegmentsHeader({v1::OPERATOR_SUM}),
                            .data = std::string(40'000, '\1'),
                            .lengths = std::vector<std::uint64_t>(10, 1000)};
    v1::ReduceSegmentsRequest request = RequestOfKept(array, backend, service);
    request.mutable_header()->set_expected_segment_count(10);
    if (!is_ragged) request.mutable_header()->set_segment_length(1000);
    CountingHolder others;
    std::vector<kernels::Slot*> taken;
    while (kernels::Slot* const slot = pool.Take(others)) taken.push_back(slot);
    SegmentDriver driver(service, pool);
    driver.OnMessage(MessageOf(request));
    if (is_ragged) {
      v1::ReduceSegmentsRequest lengths;
      lengths.mutable_lengths()->set_lengths(array.lengths.data(), array.lengths.size() * 8);
      driver.OnMessage(MessageOf(lengths));
    }
    // After lengths that wait, nothing is read, not even the end.
    if (!is_ragged) driver.OnEnd();
    driver.TakeOutput();
    EXPECT_EQ(driver.need(), ArraySession::Need::kDevice);
    ASSERT_FALSE(driver.ended()) << driver.status();
    for (kernels::Slot* const slot : taken) pool.Return(slot);
    driver.AwaitDevice();
    driver.TakeOutput();
    if (is_ragged) driver.OnEnd();
    driver.AwaitDevice();
    driver.TakeOutput();
    ASSERT_TRUE(driver.ended());
    EXPECT_TRUE(driver.status().ok()) << driver.status();
    EXPECT_TRUE(driver.reader().rows() == array.Expected());
    pool.Leave(others);
  }
}

// The number of starts in which `count` segments of one element are reduced that lie on the device. Their
// results may go to memory; a slot has room for as many, or for twice as many if slots write them there.
int StartsOfKeptSegments(std::uint64_t count, bool to_memory = false) {
  FakeBackend backend(4, /*slot_bytes=*/4 << 20);
  backend.behaviour.segment_capacity = count;
  backend.behaviour.writes_results = true;
  Service service(backend, Limits(), [] { return absl::UnixEpoch(); });
  SlotPool pool(SlotsOf(backend));
  SegmentedArray array = {.header = SegmentsHeader({v1::OPERATOR_SUM}),
                          .data = std::string(count * 4, '\1'),
                          .lengths = std::vector<std::uint64_t>(count, 1)};
  v1::ReduceSegmentsRequest request = RequestOfKept(array, backend, service);
  request.mutable_header()->set_segment_length(1);
  std::vector<std::uint64_t> results(count);
  if (to_memory) {
    request.mutable_header()->set_expected_segment_count(count);
    request.mutable_header()->mutable_results_reference()->set_token(
        service.memories.Add(std::make_shared<const NamedMemory>(
            std::make_shared<const FakeMemory>(std::as_bytes(std::span(results)), /*host_can_read=*/true),
            std::as_writable_bytes(std::span(results)))));
  }
  SegmentDriver driver(service, pool, /*has_values=*/!to_memory);
  driver.OnMessage(MessageOf(request));
  driver.OnEnd();
  while (!driver.ended()) {
    driver.AwaitDevice();
    driver.TakeOutput();
  }
  EXPECT_TRUE(driver.status().ok()) << driver.status();
  SegmentRows rows = driver.reader().rows();
  for (std::uint64_t i = 0; to_memory && i < count; ++i) rows.rows[i] = {results[i]};
  EXPECT_TRUE(rows == array.Expected());
  return backend.behaviour.waits;
}

// So that results are sent while the device works. Few segments take one start, since each start takes time.
TEST(SegmentsDeviceTest, ManyResultsOfAKeptArrayComeInParts) {
  EXPECT_EQ(StartsOfKeptSegments(16'384), 1);
  EXPECT_EQ(StartsOfKeptSegments(16'385), 2);
  EXPECT_EQ(StartsOfKeptSegments(65'536), 4);
  EXPECT_EQ(StartsOfKeptSegments(100'000), 4);
  EXPECT_EQ(StartsOfKeptSegments(16'384, /*to_memory=*/true), 1);
  EXPECT_EQ(StartsOfKeptSegments(65'536, /*to_memory=*/true), 4);
}

// On a CPU they are reduced at once, and the shard has other calls.
TEST(SegmentsDeviceTest, ManyStartsOfAKeptArrayLeaveTheThreadToOthers) {
  constexpr std::uint64_t kSegments = 3000;
  FakeBackend backend(2);
  Service service(backend, Limits(), [] { return absl::UnixEpoch(); });
  SlotPool pool(SlotsOf(backend));
  SegmentedArray array = {.header = SegmentsHeader({v1::OPERATOR_SUM}),
                          .data = std::string(kSegments * 4, '\1'),
                          .lengths = std::vector<std::uint64_t>(kSegments, 1)};
  v1::ReduceSegmentsRequest request = RequestOfKept(array, backend, service);
  request.mutable_header()->set_segment_length(1);
  SegmentDriver driver(service, pool);
  driver.OnMessage(MessageOf(request));
  EXPECT_EQ(backend.behaviour.starts, 8) << "of 30";
  EXPECT_TRUE(pool.can_serve());
  pool.Serve();
  EXPECT_EQ(backend.behaviour.starts, 16);
  driver.OnEnd();
  while (!driver.ended()) {
    driver.AwaitDevice();
    driver.TakeOutput();
  }
  EXPECT_TRUE(driver.reader().rows() == array.Expected());
  EXPECT_EQ(pool.waiting(), 0u);
}

// A device that fails, or that works when all clients are gone.
TEST(SegmentsDeviceTest, FailuresAndLeavers) {
  FakeBackend backend(2);
  Service service(backend, Limits(), [] { return absl::UnixEpoch(); });
  SlotPool pool(SlotsOf(backend));
  SegmentedArray array = {.header = SegmentsHeader({v1::OPERATOR_SUM}),
                          .data = std::string(400'000, '\1'),
                          .lengths = {1000, 2000, 30'000, 50'000, 17'000}};
  const auto reason_of = [&] {
    return ErrorReason(DriveSegments(service, pool, array.Requests({}, 2)).status());
  };
  EXPECT_EQ(reason_of(), "");
  backend.behaviour.fail_start = true;
  EXPECT_EQ(reason_of(), "DEVICE_LOST");
  backend.behaviour.fail_start = false;
  backend.behaviour.fail_wait = true;
  EXPECT_EQ(reason_of(), "DEVICE_LOST");
  backend.behaviour.fail_wait = false;
  backend.behaviour.SetBlocked(true);
  {
    SegmentDriver driver(service, pool);
    for (const v1::ReduceSegmentsRequest& request : array.Requests({}, 2)) {
      if (driver.need() == ArraySession::Need::kMessage) driver.OnMessage(MessageOf(request));
    }
    EXPECT_GT(backend.behaviour.working(), 0u);
    driver.session().Release();
  }
  backend.behaviour.SetBlocked(false);
  pool.Poll();
  EXPECT_EQ(pool.free(), pool.size());
  EXPECT_EQ(reason_of(), "");
  EXPECT_EQ(backend.behaviour.starts, backend.behaviour.waits);
  EXPECT_EQ(backend.behaviour.misuses, 0);
}

}  // namespace
}  // namespace warpfold::server
