// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/process/process_end.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <future>

namespace warpfold::server {
namespace {

// Each case is a separate process, which stands still while its end is tested.
class ProcessEndTest : public testing::Test {
 protected:
  ProcessEndTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  [[noreturn]] static void StandStill() {
    while (true) pause();
  }
  static void Signal() { kill(getpid(), SIGTERM); }
};

TEST_F(ProcessEndTest, ASignalDuringTheStartEndsTheProcessAtOnce) {
  const auto start = [] {
    ProcessEnd::Make();
    Signal();
    StandStill();
  };
  EXPECT_EXIT(start(), testing::KilledBySignal(SIGTERM), "");
}

TEST_F(ProcessEndTest, ASignalIsARequestOnceItServes) {
  const auto serve = [] {
    ProcessEnd& end = ProcessEnd::Make();
    end.ServeFromNow();
    Signal();
    end.AwaitRequest();
    std::_Exit(7);
  };
  EXPECT_EXIT(serve(), testing::ExitedWithCode(7), "");
}

TEST_F(ProcessEndTest, ARequestThatNobodyHearsEndsTheProcessAllTheSame) {
  const auto hang = [] {
    ProcessEnd::Make().ServeFromNow();
    Signal();
    StandStill();
  };
  EXPECT_EXIT(hang(), testing::KilledBySignal(SIGTERM), "");
}

TEST_F(ProcessEndTest, OfTwoSignalsTheLaterOneEndsAProcessThatStandsStill) {
  const auto serve = [](useconds_t pause_us, int code_if_one) {
    ProcessEnd& end = ProcessEnd::Make();
    end.ServeFromNow();
    Signal();
    end.AwaitRequest();
    usleep(pause_us);
    Signal();
    end.EndWithin(absl::Seconds(1), code_if_one);
    StandStill();
  };
  EXPECT_EXIT(serve(0, 7), testing::ExitedWithCode(7), "") << "they are one request";
  EXPECT_EXIT(serve(300'000, 7), testing::KilledBySignal(SIGTERM), "");
}

TEST_F(ProcessEndTest, WhatIsWatchedMayEndAProcessThatStandsStill) {
  const auto serve = [] {
    ProcessEnd::Make().Watch([] { std::_Exit(4); });
    StandStill();
  };
  EXPECT_EXIT(serve(), testing::ExitedWithCode(4), "");
}

TEST_F(ProcessEndTest, TheWatchGoesOnWhileAnEndIsAwaited) {
  const auto serve = [] {
    ProcessEnd& end = ProcessEnd::Make();
    std::atomic<bool> fails = false;
    end.Watch([&] {
      if (fails) std::_Exit(4);
    });
    end.EndWithin(absl::Seconds(5), 7);
    fails = true;
    StandStill();
  };
  EXPECT_EXIT(serve(), testing::ExitedWithCode(4), "");
}

TEST_F(ProcessEndTest, TheLastDeadlineCounts) {
  const auto serve = [] {
    ProcessEnd& end = ProcessEnd::Make();
    end.EndWithin(absl::Milliseconds(50), 7);
    end.EndWithin(absl::Milliseconds(300), 8);
    StandStill();
  };
  EXPECT_EXIT(serve(), testing::ExitedWithCode(8), "");
}

TEST_F(ProcessEndTest, NothingIsWatchedThatMayBeGone) {
  const auto serve = [] {
    ProcessEnd& end = ProcessEnd::Make();
    std::promise<void> watched;
    bool told = false;
    end.Watch([&] {
      if (!std::exchange(told, true)) watched.set_value();
    });
    watched.get_future().wait();
    end.Unwatch();
    end.EndWithin(absl::Milliseconds(100), 7);
    told = false;
    usleep(50'000);
    if (told) std::_Exit(8);
    StandStill();
  };
  EXPECT_EXIT(serve(), testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace warpfold::server
