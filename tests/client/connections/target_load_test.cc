// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// When calls ask for their admission first, by a clock of the test's own.
#include "client/connections/target_load.h"

#include <gtest/gtest.h>

namespace warpfold {
namespace {

const absl::Time kNow = absl::UnixEpoch();
constexpr absl::Duration kTick = absl::Nanoseconds(1);

TEST(RefusalsTest, CallsAskForSomeSecondsAfterARefusal) {
  TargetLoad refusals;
  EXPECT_FALSE(refusals.AsksFirst(kNow));
  refusals.Refused(kNow);
  EXPECT_TRUE(refusals.AsksFirst(kNow));
  EXPECT_TRUE(refusals.AsksFirst(kNow + kAsksAfterRefusal - kTick));
  EXPECT_FALSE(refusals.AsksFirst(kNow + kAsksAfterRefusal));
  refusals.Refused(kNow + kAsksAfterRefusal);
  EXPECT_TRUE(refusals.AsksFirst(kNow + kAsksAfterRefusal));
}

TEST(RefusalsTest, AnAdmissionDoesNotEndTheAsking) {
  TargetLoad refusals;
  refusals.Refused(kNow);
  refusals.Admitted();
  EXPECT_TRUE(refusals.AsksFirst(kNow + kTick));
}

TEST(RefusalsTest, WhoDoesNotKnowTheQuestionIsNotAskedForAWhile) {
  TargetLoad refusals;
  refusals.Refused(kNow);
  refusals.HeardNothing(kNow);
  EXPECT_FALSE(refusals.AsksFirst(kNow + kTick));
  const absl::Time later = kNow + kNotAskedAfterSilence;
  refusals.Refused(later - kTick);
  EXPECT_FALSE(refusals.AsksFirst(later - kTick));
  EXPECT_TRUE(refusals.AsksFirst(later));
}

TEST(RefusalsTest, PlacesAreCounted) {
  TargetLoad refusals;
  EXPECT_FALSE(refusals.HasPlaces());
  refusals.TookPlace();
  refusals.TookPlace();
  refusals.LeftPlace();
  EXPECT_TRUE(refusals.HasPlaces());
  refusals.LeftPlace();
  EXPECT_FALSE(refusals.HasPlaces());
}

TEST(RefusalsTest, WhoHasAnsweredBeforeIsOnlyLate) {
  TargetLoad refusals;
  refusals.Refused(kNow);
  refusals.Admitted();
  refusals.HeardNothing(kNow);
  EXPECT_TRUE(refusals.AsksFirst(kNow + kTick));
}

}  // namespace
}  // namespace warpfold
