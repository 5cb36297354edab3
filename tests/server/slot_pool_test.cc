// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/slot_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/server/fake_backend.h"

namespace warpfold::server {
namespace {

CallControl Unlimited() { return {absl::UnixEpoch(), absl::InfiniteFuture(), {}}; }

// Spins until `condition` holds; the test's own timeout ends it otherwise.
template <typename Condition>
void Await(Condition condition) {
  while (!condition()) std::this_thread::yield();
}

TEST(SlotPoolTest, LeasesEachSlotOnceAndTakesItBack) {
  FakeBackend backend(2);
  SlotPool pool(backend.slots());
  const CallControl call = Unlimited();
  {
    auto first = pool.Acquire(call);
    auto second = pool.Acquire(call);
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_NE((*first)->staging().data(), (*second)->staging().data());
    EXPECT_FALSE(pool.TryAcquire().has_value());
    EXPECT_EQ(pool.free(), 0u);
  }
  EXPECT_EQ(pool.free(), 2u);
}

TEST(SlotPoolTest, ServesInTheOrderOfAsking) {
  FakeBackend backend(1);
  SlotPool pool(backend.slots());
  const CallControl call = Unlimited();
  auto held = pool.TryAcquire();
  ASSERT_TRUE(held.has_value());
  std::mutex mutex;
  std::vector<int> order;
  std::vector<std::thread> threads;
  constexpr int kThreads = 8;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      auto lease = pool.Acquire(call);
      const std::lock_guard lock(mutex);
      order.push_back(i);
    });
    Await([&] { return pool.waiting() == static_cast<std::size_t>(i) + 1; });
  }
  EXPECT_FALSE(pool.TryAcquire().has_value());
  held.reset();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(pool.free(), 1u);
}

TEST(SlotPoolTest, AStoppedCallLeavesTheQueue) {
  FakeBackend backend(1);
  SlotPool pool(backend.slots());
  CallControl stopped = Unlimited();
  const CallControl patient = Unlimited();
  auto held = pool.TryAcquire();
  absl::Status status;
  std::thread first([&] { status = pool.Acquire(stopped).status(); });
  Await([&] { return pool.waiting() == 1; });
  bool served = false;
  std::thread second([&] { served = pool.Acquire(patient).ok(); });
  Await([&] { return pool.waiting() == 2; });

  EXPECT_TRUE(stopped.Stop(absl::CancelledError("gone")));
  pool.Wake();
  first.join();
  EXPECT_EQ(status, absl::CancelledError("gone"));
  EXPECT_EQ(pool.Acquire(stopped).status(), absl::CancelledError("gone"));
  held.reset();
  second.join();
  EXPECT_TRUE(served);
  EXPECT_EQ(pool.free(), 1u);
}

// Slots handed over and calls stopped at the same time: none may be lost or doubled.
TEST(SlotPoolTest, IsWholeAfterAStampede) {
  FakeBackend backend(3);
  SlotPool pool(backend.slots());
  std::atomic<int> out = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        CallControl call = Unlimited();
        std::thread stopper;
        if (i % 15 == t) {
          stopper = std::thread([&] {
            call.Stop(absl::CancelledError("gone"));
            pool.Wake();
          });
        }
        auto lease = i % 3 == 0 ? pool.Acquire(call) : pool.Acquire(Unlimited());
        if (lease.ok()) {
          EXPECT_LE(++out, 3);
          if (i % 5 == 0) std::this_thread::yield();
          --out;
        }
        if (stopper.joinable()) stopper.join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.free(), 3u);
  EXPECT_EQ(pool.waiting(), 0u);
}

}  // namespace
}  // namespace warpfold::server
