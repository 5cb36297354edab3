// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Segments on a device that the test holds in its hand: one that reads messages where they lie, one that
// fails, and one that still works when everybody is gone.
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

// A device that reads messages where they lie: they are held until it has, and no longer.
TEST(SegmentsDeviceTest, MessagesAreReadWhereTheyLie) {
  PieceHeap heap;
  FakeBackend backend(2);
  ASSERT_TRUE(backend.OpenPieces(heap.memory()).ok());
  Service service(backend, Limits(), [] { return absl::UnixEpoch(); });
  SlotShare share(SlotsOf(backend));
  std::mt19937 random(4);  // NOLINT(cert-msc51-cpp): the same cuts on every run
  for (int round = 0; round < 200; ++round) {
    SegmentedArray array = {.header = SegmentsHeader({v1::OPERATOR_SUM, v1::OPERATOR_ARGMAX}),
                            .data = {},
                            .lengths = std::vector<std::uint64_t>(1 + random() % 60)};
    for (std::uint64_t& length : array.lengths)
      length = random() % 8 == 0 ? random() % 20'000 : random() % 900;
    const std::uint64_t count = std::accumulate(array.lengths.begin(), array.lengths.end(), std::uint64_t{0});
    for (std::uint64_t i = 0; i < count * 4; ++i) array.data.push_back(static_cast<char>(random()));
    std::vector<std::size_t> cuts(random() % 12);
    for (std::size_t& cut : cuts) cut = random() % (array.data.size() + 1);
    std::sort(cuts.begin(), cuts.end());
    const absl::StatusOr<SegmentRows> rows = DriveSegments(
        service, share, array.Requests(cuts, 7),
        [&] {
          if (round % 2 == 0) CallInLoans(share);
        },
        [&](const std::string& bytes) { return heap.MessageIn(bytes, {bytes.size() / 2}, random() % 16); });
    ASSERT_TRUE(rows.ok()) << rows.status();
    ASSERT_TRUE(*rows == array.Expected()) << round;
    ASSERT_EQ(heap.held(), 0u) << round;
  }
  EXPECT_GT(backend.behaviour.piece_starts, 200);
  // The device is slow: what it has not read stays, also when the call is gone.
  backend.behaviour.SetBlocked(true);
  SegmentedArray array = {.header = SegmentsHeader({v1::OPERATOR_SUM}),
                          .data = std::string(40'000, '\1'),
                          .lengths = {5000, 5000}};
  {
    SegmentDriver driver(service, share);
    for (const v1::ReduceSegmentsRequest& request : array.Requests({}, 2)) {
      driver.OnMessage(heap.MessageIn(request.SerializeAsString(), {}, 3));
    }
    driver.OnEnd();
    EXPECT_EQ(driver.need(), ArraySession::Need::kDevice);
    driver.session().Release();
  }
  EXPECT_EQ(heap.held(), 1u);
  backend.behaviour.SetBlocked(false);
  share.Poll();
  EXPECT_EQ(heap.held(), 0u);
  EXPECT_EQ(backend.behaviour.misuses, 0);
}

// A device that fails, or that works when everybody is gone.
TEST(SegmentsDeviceTest, FailuresAndLeavers) {
  FakeBackend backend(2);
  Service service(backend, Limits(), [] { return absl::UnixEpoch(); });
  SlotShare share(SlotsOf(backend));
  SegmentedArray array = {.header = SegmentsHeader({v1::OPERATOR_SUM}),
                          .data = std::string(400'000, '\1'),
                          .lengths = {1000, 2000, 30'000, 50'000, 17'000}};
  const auto reason_of = [&] {
    return ErrorReason(DriveSegments(service, share, array.Requests({}, 2)).status());
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
    SegmentDriver driver(service, share);
    for (const v1::ReduceSegmentsRequest& request : array.Requests({}, 2)) {
      if (driver.need() == ArraySession::Need::kMessage) driver.OnMessage(MessageOf(request));
    }
    EXPECT_GT(backend.behaviour.working(), 0u);
    driver.session().Release();
  }
  backend.behaviour.SetBlocked(false);
  share.Poll();
  EXPECT_EQ(share.free(), share.size());
  EXPECT_EQ(reason_of(), "");
  EXPECT_EQ(backend.behaviour.starts, backend.behaviour.waits);
  EXPECT_EQ(backend.behaviour.misuses, 0);
}

}  // namespace
}  // namespace warpfold::server
