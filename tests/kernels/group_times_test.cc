// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/group_times.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace warpfold::kernels::cpu {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr nanoseconds kLittle = nanoseconds(1);

TEST(GroupTimesTest, WhoIsAloneYieldsToNobody) {
  GroupTimes times;
  EXPECT_FALSE(times.Yields(1));
  for (int i = 0; i < 1000; ++i) {
    times.Charge(1, milliseconds(1));
    EXPECT_FALSE(times.Yields(1));
  }
}

TEST(GroupTimesTest, EqualsYieldToEachOther) {
  GroupTimes times;
  times.Charge(1, milliseconds(1));
  times.Charge(2, milliseconds(1));
  EXPECT_TRUE(times.Yields(1));
  EXPECT_TRUE(times.Yields(2));
}

TEST(GroupTimesTest, WhoIsFarBehindDoesNotYield) {
  GroupTimes times;
  times.Charge(1, kLittle);
  times.Charge(2, kFarBehind);
  EXPECT_TRUE(times.Yields(1)) << "a nanosecond less than far";
  times.Charge(2, kLittle);
  EXPECT_FALSE(times.Yields(1));
  EXPECT_TRUE(times.Yields(2));
  EXPECT_FALSE(times.Yields(3)) << "who has had nothing";
  times.Charge(1, kLittle);
  EXPECT_TRUE(times.Yields(1));
}

TEST(GroupTimesTest, NobodySavesUp) {
  GroupTimes times;
  times.Charge(1, kLittle);
  times.Charge(2, 100 * kMaxBehind);
  times.Charge(1, kMaxBehind - kFarBehind);
  EXPECT_FALSE(times.Yields(1));
  times.Charge(1, kLittle);
  EXPECT_TRUE(times.Yields(1)) << "only kMaxBehind of what the other has had counts";
}

// A group that is there but gets nothing done is not a competitor.
TEST(GroupTimesTest, WhoHasHadNothingLatelyDoesNotCompete) {
  GroupTimes times;
  times.Charge(2, kLittle);
  times.Charge(1, kLately);
  EXPECT_TRUE(times.Yields(1));
  times.Charge(1, kLittle);
  EXPECT_FALSE(times.Yields(1));
  times.Charge(2, kLittle);
  EXPECT_TRUE(times.Yields(1)) << "the other is back";
  times.Charge(1, kLittle);
  EXPECT_TRUE(times.Yields(1));
}

TEST(GroupTimesTest, WorkIsCountedAndCharged) {
  GroupTimes times;
  times.Charge(2, kLittle);
  times.Charge(1, kLately);
  times.Charge(1, kLittle);
  EXPECT_FALSE(times.Yields(1));
  EXPECT_EQ(times.working(), 0);
  {
    const GroupWork work(times, 1);
    const GroupWork more(times, 3);
    EXPECT_EQ(times.working(), 2);
  }
  EXPECT_EQ(times.working(), 0);
  times.Charge(1, kLately / 2);
  EXPECT_TRUE(times.Yields(1)) << "3 was charged, too";
}

}  // namespace
}  // namespace warpfold::kernels::cpu
