// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// When calls ask for their admission first, on a clock that the test sets.
#include "client/connections/target_load.h"

#include <gtest/gtest.h>

namespace warpfold {
namespace {

const absl::Time kNow = absl::UnixEpoch();
constexpr absl::Duration kTick = absl::Nanoseconds(1);

TEST(TargetLoadTest, CallsAskForSomeSecondsAfterARefusal) {
  TargetLoad load;
  EXPECT_FALSE(load.AsksFirst(kNow));
  load.Refused(kNow);
  EXPECT_TRUE(load.AsksFirst(kNow));
  EXPECT_TRUE(load.AsksFirst(kNow + kAsksAfterRefusal - kTick));
  EXPECT_FALSE(load.AsksFirst(kNow + kAsksAfterRefusal));
  load.Refused(kNow + kAsksAfterRefusal);
  EXPECT_TRUE(load.AsksFirst(kNow + kAsksAfterRefusal));
}

TEST(TargetLoadTest, AnAdmissionDoesNotEndTheAsking) {
  TargetLoad load;
  load.Refused(kNow);
  load.Admitted();
  EXPECT_TRUE(load.AsksFirst(kNow + kTick));
}

TEST(TargetLoadTest, WhoDoesNotKnowTheQuestionIsNotAskedForAWhile) {
  TargetLoad load;
  load.Refused(kNow);
  load.HeardNothing(kNow);
  EXPECT_FALSE(load.AsksFirst(kNow + kTick));
  const absl::Time later = kNow + kNotAskedAfterSilence;
  load.Refused(later - kTick);
  EXPECT_FALSE(load.AsksFirst(later - kTick));
  EXPECT_TRUE(load.AsksFirst(later));
}

TEST(TargetLoadTest, PlacesAreCounted) {
  TargetLoad load;
  EXPECT_FALSE(load.HasPlaces());
  load.TookPlace();
  load.TookPlace();
  load.LeftPlace();
  EXPECT_TRUE(load.HasPlaces());
  load.LeftPlace();
  EXPECT_FALSE(load.HasPlaces());
}

TEST(TargetLoadTest, WhoHasAnsweredBeforeIsOnlyLate) {
  TargetLoad load;
  load.Refused(kNow);
  load.Admitted();
  load.HeardNothing(kNow);
  EXPECT_TRUE(load.AsksFirst(kNow + kTick));
}

}  // namespace
}  // namespace warpfold
