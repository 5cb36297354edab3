// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Segments through a session, on the backend that WARPFOLD_TEST_DEVICE names, cpu unless it says cuda:N.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "kernels/devices.h"
#include "kernels/error.h"
#include "tests/server/drive_segments.h"
#include "tests/server/drive_session.h"
#include "tests/server/piece_heap.h"

namespace warpfold::server {

inline constexpr std::size_t kSlotBytes = 64 << 10;

inline std::unique_ptr<kernels::Backend> SegmentsBackend() {
  const char* const name = std::getenv("WARPFOLD_TEST_DEVICE");
  std::string note;
  return kernels::MakeBackend(name != nullptr ? name : "cpu", {.slots = 3, .slot_bytes = kSlotBytes}, &note)
      .value();
}

class SegmentsTest : public testing::Test {
 protected:
  SegmentsTest()
      : backend_(SegmentsBackend()),
        service_(*backend_, Limits{.max_stream_bytes = 1 << 26}, [] { return absl::UnixEpoch(); }) {
    // A device that takes pieces reads half of the messages where they lie.
    const absl::Status opened = backend_->OpenPieces(heap_.memory());
    EXPECT_TRUE(opened.ok() || absl::IsUnimplemented(opened)) << opened;
  }

  // A message as it may come: in slices, in memory that the device reads or elsewhere.
  Message Arrive(std::string bytes) {
    const std::size_t slice = random_() % (bytes.size() + 1);
    const std::size_t middle = (slice + bytes.size()) / 2;
    return random_() % 2 == 0 ? MessageOf(std::move(bytes), {slice, middle})
                              : heap_.MessageIn(bytes, {slice, middle}, random_() % 16);
  }

  std::string Bytes(std::size_t size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random_());
    return bytes;
  }

  // An array of random bits, cut into these lengths.
  SegmentedArray Array(const std::vector<v1::Operator>& operators, v1::ElementType type,
                       std::vector<std::uint64_t> lengths) {
    SegmentedArray array = {.header = SegmentsHeader(operators, type), .data = {}, .lengths = {}};
    const std::uint64_t elements = std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0});
    array.data = Bytes(elements * array.reduction().element_bytes());
    array.lengths = std::move(lengths);
    return array;
  }

  static SegmentedArray Fixed(SegmentedArray array) {
    array.header.set_segment_length(array.lengths.front());
    return array;
  }

  std::vector<std::size_t> RandomCuts(std::size_t size, std::size_t count) {
    std::vector<std::size_t> cuts(count);
    for (std::size_t& cut : cuts) cut = random_() % (size + 1);
    std::sort(cuts.begin(), cuts.end());
    return cuts;
  }

  // The device may still be at work on what an ended call has started.
  void ExpectAllFree() {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (pool_.free() < pool_.size() && absl::Now() < deadline) pool_.Poll();
    EXPECT_EQ(pool_.free(), pool_.size());
  }

  void ExpectRight(
      const SegmentedArray& array, const std::vector<v1::ReduceSegmentsRequest>& requests,
      const std::function<void()>& between = [] {}) {
    const absl::StatusOr<SegmentRows> rows = DriveSegments(
        service_, pool_, requests, between, [this](std::string bytes) { return Arrive(std::move(bytes)); });
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_TRUE(*rows == array.Expected());
    ExpectAllFree();
  }

  absl::Status StatusOf(const std::vector<v1::ReduceSegmentsRequest>& requests) {
    const absl::StatusOr<SegmentRows> rows = DriveSegments(service_, pool_, requests);
    ExpectAllFree();
    EXPECT_EQ(pool_.waiting(), 0u);
    return rows.status();
  }
  std::string ReasonOf(const std::vector<v1::ReduceSegmentsRequest>& requests) {
    return kernels::ErrorReason(StatusOf(requests));
  }

  std::mt19937_64 random_{1};  // NOLINT(cert-msc51-cpp): the same arrays on every run
  PieceHeap heap_;
  std::unique_ptr<kernels::Backend> backend_;
  Service service_;
  SlotPool pool_{SlotsOf(*backend_)};
};

}  // namespace warpfold::server
