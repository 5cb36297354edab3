// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The share of slots that a call with segments gets when others always want them, too: parties get slots in
// turns, so that the call gets less if its segments fill less of a slot.
#include <gtest/gtest.h>
#include <malloc.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "server/core/slots/array_reducer.h"
#include "server/core/slots/array_segment_reducer.h"
#include "server/core/slots/slot_pool.h"
#include "tests/server/drive_session.h"
#include "tests/server/fake_backend.h"
#include "tests/server/fake_slot.h"

namespace warpfold::server {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kSlotBytes = 8 * kMiB;

const Clock kNoTime = [] { return absl::UnixEpoch(); };

kernels::ReductionPlan Sum() {
  kernels::ReductionSpec spec;
  spec.operators = {"sum"};
  spec.element_type = kernels::ElementType::kUint8;
  return kernels::ReductionPlan::Create(spec).value();
}

// Sends messages of a MiB as fast as they are taken.
class Sender {
 public:
  explicit Sender(ArraySink& sink) : sink_(sink) {}

  void Send() {
    constexpr int kMaxAtOnce = 64;
    for (int i = 0; i < kMaxAtOnce; ++i) {
      const absl::StatusOr<std::size_t> taken = sink_.Append(std::span(message_).subspan(offset_), nullptr);
      ASSERT_TRUE(taken.ok()) << taken.status();
      if (*taken == 0) return;
      bytes_ += *taken;
      offset_ = (offset_ + *taken) % message_.size();
    }
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  ArraySink& sink_;
  const std::vector<std::byte> message_ = std::vector<std::byte>(kMiB);
  std::size_t offset_ = 0;
  std::uint64_t bytes_ = 0;
};

// Its share, relative to that of another party with an endless array.
double ShareOf(std::uint64_t segment_bytes, int slot_count) {
  FakeBehaviour device;
  device.ends_in_start = false;
  device.SetBlocked(true);
  std::vector<std::unique_ptr<FakeSlot>> slots;
  std::vector<kernels::Slot*> of_share;
  for (int i = 0; i < slot_count; ++i) {
    slots.push_back(std::make_unique<FakeSlot>(device, kSlotBytes, 0));
    of_share.push_back(slots.back().get());
  }
  SlotPool pool(of_share);
  std::function<void()> wake[3] = {[] {}, [] {}, [] {}};
  const ArrayReducer::Options endless = {.reduction = Sum(), .least_bytes = std::uint64_t{1} << 40};
  ArraySegmentReducer segments(PartySlots(pool, "a"), kNoTime, Sum(), segment_bytes, [&] { wake[0](); });
  ArrayReducer array(PartySlots(pool, "b"), kNoTime, endless, [&] { wake[1](); });
  ArrayReducer third(PartySlots(pool, "c"), kNoTime, endless, [&] { wake[2](); });
  Sender senders[] = {Sender(segments), Sender(array), Sender(third)};
  const auto take_messages = [&segments] {
    while (segments.has_message()) segments.TakeMessage();
  };
  wake[0] = [&] {
    take_messages();
    senders[0].Send();
  };
  wake[1] = [&] { senders[1].Send(); };
  wake[2] = [&] { senders[2].Send(); };
  for (const std::function<void()>& begin : wake) begin();
  for (int i = 0; i < 200; ++i) {
    take_messages();
    if (device.working() > 0) device.Finish(0);
    pool.Poll();
  }
  for (std::function<void()>& end : wake) end = [] {};
  device.SetBlocked(false);
  device.FinishAll();
  pool.Poll();
  segments.Release();
  array.Release();
  third.Release();
  return static_cast<double>(senders[0].bytes()) / static_cast<double>(senders[1].bytes());
}

TEST(SegmentSharesTest, ItIsWhatSegmentsFillOfASlot) {
  for (const int slots : {1, 4}) {
    for (const std::uint64_t segment : {kMiB / 2, 3 * kMiB / 2, 3 * kMiB, 7 * kMiB}) {
      const std::uint64_t filled = kSlotBytes / segment * segment;
      const double fill = static_cast<double>(filled) / static_cast<double>(kSlotBytes);
      EXPECT_GT(ShareOf(segment, slots), 0.9 * fill) << segment << " bytes, " << slots << " slots";
    }
  }
}

// Each segment that is longer than a slot has its own reducer, of half a kilobyte and more. The call may have
// any number of them.
TEST(LongSegmentsTest, ReducersOfThoseThatAreFinishedAreFreed) {
  constexpr std::size_t kBytes = 4 << 10;
  FakeBehaviour device;
  FakeSlot slot(device, kBytes, 0);
  SlotPool pool({&slot});
  ArraySegmentReducer segments(PartySlots(pool, "a"), kNoTime, Sum(), 2 * kBytes, [] {});
  const std::vector<std::byte> segment(2 * kBytes);
  const auto send = [&](int count) {
    for (int i = 0; i < count; ++i) {
      for (std::size_t at = 0; at < segment.size();) {
        const auto taken = segments.Append(std::span(segment).subspan(at), nullptr);
        ASSERT_TRUE(taken.ok()) << taken.status();
        at += *taken;
        device.FinishAll();
        pool.Poll();
        while (segments.has_message()) segments.TakeMessage();
      }
    }
  };
  send(100);
  const std::size_t before = mallinfo2().uordblks;
  send(2000);
  EXPECT_EQ(segments.segment_count(), 2100u);
  EXPECT_LT(mallinfo2().uordblks, before + 50'000);
}

// On a CPU. The client of the first call may wait for them before it sends more.
TEST(SegmentReducerTest, ReportsTheResultsOfASlotThatWasRevoked) {
  FakeBehaviour device;
  FakeSlot slot(device, kSlotBytes, 0);
  SlotPool pool({&slot});
  int reports = 0;
  ArraySegmentReducer segments(PartySlots(pool, "a"), kNoTime, Sum(), 16, [&] { ++reports; });
  segments.TakeMessage();  // the layout
  const std::vector<std::byte> bytes(40, std::byte{1});
  ASSERT_EQ(segments.Append(bytes, nullptr).value(), bytes.size());
  ASSERT_TRUE(segments.Pause().ok());
  EXPECT_FALSE(segments.has_message());
  RevokeLoans(pool);
  EXPECT_TRUE(segments.has_message());
  EXPECT_EQ(reports, 1);
}

// A million segments of a byte keep a device busy for longer than a megabyte does.
TEST(SegmentReducerTest, SegmentsCountBesideTheirBytes) {
  FakeBackend backend(1);
  backend.behaviour.SetBlocked(true);
  DeviceHealth device(backend);
  SlotPool pool(SlotsOf(backend), &device);
  ArraySegmentReducer segments(PartySlots(pool, "a"), kNoTime, Sum(), 16, [] {});
  const std::vector<std::byte> bytes(48, std::byte{1});
  ASSERT_EQ(segments.Append(bytes, nullptr).value(), bytes.size());
  EXPECT_FALSE(segments.TryFinish().value());
  EXPECT_EQ(device.Begin(0), 48 + 3 * 64);
  backend.behaviour.FinishAll();
  pool.Poll();
  EXPECT_EQ(device.Begin(0), 0);
}

}  // namespace
}  // namespace warpfold::server
