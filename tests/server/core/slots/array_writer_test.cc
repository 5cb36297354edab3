// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Arrays that are written to memory of a device: bytes that the device reads where they came, and bytes that
// are copied for it, arrive at their places, however the array is cut.
#include "server/core/slots/array_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "server/core/references/memory_registry.h"
#include "tests/server/drive_session.h"
#include "tests/server/fake_backend.h"
#include "tests/server/piece_heap.h"

namespace warpfold::server {
namespace {

constexpr std::size_t kSlotBytes = 16 << 10;

class ArrayWriterTest : public testing::Test {
 protected:
  ArrayWriterTest() { EXPECT_TRUE(backend_.OpenPieces(heap_.memory()).ok()); }
  ~ArrayWriterTest() override { EXPECT_EQ(backend_.behaviour.misuses, 0); }

  std::shared_ptr<const NamedMemory> Memory(std::size_t bytes) {
    memory_ = *backend_.Allocate(0, bytes);
    return std::make_shared<const NamedMemory>(
        std::vector<NamedMemory::Part>{{.memory = memory_, .byte_offset = 0, .byte_count = bytes}});
  }

  void Append(ArrayWriter& writer, ByteSlice bytes, const std::shared_ptr<const void>& owner) {
    while (!bytes.empty()) {
      const absl::StatusOr<std::size_t> taken = writer.Append(bytes, owner);
      ASSERT_TRUE(taken.ok()) << taken.status();
      bytes = bytes.subspan(*taken);
      pool_.Poll();
    }
  }

  PieceHeap heap_;
  FakeBackend backend_{2, kSlotBytes};
  SlotPool pool_{SlotsOf(backend_)};
  std::shared_ptr<const kernels::Memory> memory_;
  std::mt19937 random_{5};  // NOLINT(cert-msc51-cpp): the same cuts on every run
};

TEST_F(ArrayWriterTest, AnyMixtureOfPiecesAndCopiesArrives) {
  for (int round = 0; round < 100; ++round) {
    std::string data(1 + random_() % (6 * kSlotBytes), '\0');
    for (char& byte : data) byte = static_cast<char>(random_());
    const auto memory = Memory(data.size());
    ArrayWriter writer(PartySlots(pool_), memory, [] {});
    for (std::size_t at = 0; at < data.size();) {
      const std::size_t n = std::min<std::size_t>(1 + random_() % 9000, data.size() - at);
      const Message message = random_() % 2 == 0 ? MessageOf(data.substr(at, n))
                                                 : heap_.MessageIn(data.substr(at, n), {}, random_() % 16);
      for (const ByteSlice slice : message.slices) Append(writer, slice, message.owner);
      if (random_() % 4 == 0) {
        ASSERT_TRUE(writer.Pause().ok());
      }
      if (random_() % 4 == 0) RevokeLoans(pool_);
      at += n;
    }
    while (!writer.TryFinish().value()) pool_.Poll();
    ASSERT_TRUE(std::ranges::equal(std::span(memory_->data(), data.size()), AsBytes(data))) << round;
    ASSERT_EQ(heap_.held(), 0u) << round;
  }
  EXPECT_GT(backend_.behaviour.piece_starts, 100);
}

TEST_F(ArrayWriterTest, AMessageIsHeldUntilTheDeviceHasReadIt) {
  backend_.behaviour.SetBlocked(true);
  const std::string data(8000, 'x');
  const auto memory = Memory(data.size());
  ArrayWriter writer(PartySlots(pool_), memory, [] {});
  {
    const Message message = heap_.MessageIn(data, {}, 1);
    Append(writer, message.slices.front(), message.owner);
  }
  EXPECT_FALSE(writer.TryFinish().value());
  writer.Release();
  EXPECT_EQ(heap_.held(), 1u);
  backend_.behaviour.SetBlocked(false);
  pool_.Poll();
  EXPECT_EQ(heap_.held(), 0u);
  EXPECT_TRUE(std::ranges::equal(std::span(memory_->data(), data.size()), AsBytes(data)));
}

TEST_F(ArrayWriterTest, AnArrayThatTheDeviceFailedToStoreIsNotThere) {
  backend_.behaviour.SetBlocked(true);
  const auto memory = Memory(kSlotBytes);
  ArrayWriter writer(PartySlots(pool_), memory, [] {});
  const std::string data(kSlotBytes, 'x');
  Append(writer, AsBytes(data), nullptr);
  EXPECT_FALSE(writer.TryFinish().value());
  backend_.behaviour.Finish(0, DeviceLost());
  pool_.Poll();
  EXPECT_EQ(writer.TryFinish().status(), DeviceLost());
  writer.Release();
  backend_.behaviour.SetBlocked(false);
  EXPECT_EQ(pool_.free(), pool_.size());
}

TEST_F(ArrayWriterTest, WhileOthersWaitNobodyKeepsASlotForItsClient) {
  const auto memory = Memory(kSlotBytes);
  CountingHolder others;
  for (const bool others_wait : {false, true}) {
    kernels::Slot* const kept = pool_.Take(others);
    ArrayWriter writer(PartySlots(pool_), memory, [] {});
    const std::string data(1000, 'x');
    Append(writer, AsBytes(data), nullptr);
    EXPECT_EQ(pool_.free(), 0u);
    CountingHolder waiting;
    backend_.behaviour.SetBlocked(true);
    if (others_wait) {
      EXPECT_EQ(pool_.Take(waiting), nullptr);
    }
    ASSERT_TRUE(writer.Pause().ok());
    EXPECT_EQ(pool_.in_flight(), others_wait ? 1u : 0u);
    backend_.behaviour.SetBlocked(false);
    pool_.Poll();
    pool_.Leave(waiting);
    writer.Release();
    pool_.Return(kept);
  }
  pool_.Leave(others);
  EXPECT_EQ(pool_.free(), pool_.size());
}

}  // namespace
}  // namespace warpfold::server
