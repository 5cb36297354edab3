// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/side_by_side.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <stdexcept>
#include <stop_token>
#include <thread>

#include "absl/time/clock.h"

namespace warpfold {
namespace {

// Whether the part is stopped within a minute.
bool AwaitStop(const Interrupts& interrupts) {
  const absl::Time end = absl::Now() + absl::Minutes(1);
  while (!interrupts.stop.stop_requested() && absl::Now() < end) absl::SleepFor(absl::Milliseconds(1));
  return interrupts.stop.stop_requested();
}

bool IsStopped(std::size_t, const Interrupts& interrupts) {
  EXPECT_TRUE(AwaitStop(interrupts));
  return false;
}

TEST(SideBySideTest, APartThatIsEnoughStopsTheOthers) {
  const auto run = [](std::size_t part, const Interrupts& interrupts) {
    return part == 2 || IsStopped(part, interrupts);
  };
  EXPECT_TRUE(RunSideBySide(4, {}, run).ok());
}

TEST(SideBySideTest, AStopFromOutsideStopsAll) {
  std::stop_source source;
  source.request_stop();
  EXPECT_TRUE(RunSideBySide(3, {.stop = source.get_token()}, IsStopped).ok());
}

TEST(SideBySideTest, KeepGoingIsAskedNoMoreAfterItsFalse) {
  for (const std::size_t parts : {1, 3}) {
    int asked = 0;
    const Interrupts interrupts = {.keep_going = [&] { return ++asked < 3; }};
    const auto run = [](std::size_t part, const Interrupts& each) {
      while (each.keep_going && each.keep_going()) continue;
      return each.keep_going ? each.keep_going() : IsStopped(part, each);
    };
    EXPECT_TRUE(absl::IsCancelled(RunSideBySide(parts, interrupts, run)));
    EXPECT_EQ(asked, 3);
  }
}

TEST(SideBySideTest, WhatAPartThrowsStopsTheOthersAndComesOut) {
  const auto run = [](std::size_t part, const Interrupts& interrupts) {
    if (part == 1) throw std::runtime_error("part 1");
    return IsStopped(part, interrupts);
  };
  EXPECT_THROW(RunSideBySide(3, {}, run).IgnoreError(), std::runtime_error);
}

TEST(SideBySideTest, WhatKeepGoingThrowsStopsAllAndComesOut) {
  const Interrupts interrupts = {.keep_going = []() -> bool { throw std::runtime_error("keep_going"); }};
  EXPECT_THROW(RunSideBySide(3, interrupts, IsStopped).IgnoreError(), std::runtime_error);
}

// No thread gets a stack of this size.
class WithoutThreads {
 public:
  WithoutThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 47);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  ~WithoutThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_;
};

TEST(SideBySideTest, WithoutThreadsTheCallerRunsAllParts) {
  const WithoutThreads without;
  std::size_t next = 0;
  const auto run = [&, caller = std::this_thread::get_id()](std::size_t part, const Interrupts&) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(part, next++);
    return false;
  };
  EXPECT_TRUE(RunSideBySide(3, {}, run).ok());
  EXPECT_EQ(next, 3u);
}

}  // namespace
}  // namespace warpfold
