// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// When a call is tried again, on a clock that the test sets.
#include "client/calls/retry.h"

#include <gtest/gtest.h>

#include <limits>

#include "client/connections/status.h"
#include "google/rpc/status.pb.h"

namespace warpfold {
namespace {

const absl::Time kNow = absl::UnixEpoch();
const ClientOptions kOptions = {.max_attempts = 3, .backoff = absl::Milliseconds(100)};

absl::Status Draining() { return MakeError(absl::StatusCode::kUnavailable, "DRAINING", "draining"); }

absl::Status Busy(absl::Duration delay = absl::ZeroDuration()) {
  absl::Status status = MakeError(absl::StatusCode::kResourceExhausted, "TOO_MANY_REDUCTIONS", "busy");
  google::rpc::RetryInfo info;
  info.mutable_retry_delay()->set_seconds(absl::ToInt64Seconds(delay));
  status.SetPayload("type.googleapis.com/google.rpc.RetryInfo", absl::Cord(info.SerializeAsString()));
  return status;
}

TEST(RetryPolicyTest, PausesDoubleAndAttemptsEnd) {
  RetryPolicy policy(kOptions, absl::InfiniteFuture());
  const auto first = policy.PauseAfter(Draining(), {}, kNow);
  const auto second = policy.PauseAfter(Draining(), {}, kNow);
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_TRUE(*first >= absl::Milliseconds(80) && *first <= absl::Milliseconds(100)) << *first;
  EXPECT_TRUE(*second >= absl::Milliseconds(160) && *second <= absl::Milliseconds(200)) << *second;
  EXPECT_FALSE(policy.PauseAfter(Draining(), {}, kNow).has_value());
  policy.Reset();
  EXPECT_LE(policy.PauseAfter(Draining(), {}, kNow).value(), absl::Milliseconds(100));
}

TEST(RetryPolicyTest, NoPauseGoesBeyondTheDeadline) {
  RetryPolicy policy(kOptions, kNow + absl::Milliseconds(250));
  EXPECT_TRUE(policy.PauseAfter(Draining(), {}, kNow).has_value());
  EXPECT_FALSE(policy.PauseAfter(Draining(), {}, kNow + absl::Milliseconds(100)).has_value());
  EXPECT_FALSE(policy.PauseAfter(Busy(absl::Seconds(1)), {.patient = true}, kNow).has_value());
  // A pause does not end at the deadline, either: nothing could be done then.
  RetryPolicy at_once({.max_attempts = 3, .backoff = absl::ZeroDuration()}, kNow);
  EXPECT_FALSE(at_once.PauseAfter(Draining(), {}, kNow).has_value());
}

TEST(RetryPolicyTest, WhatWouldFailAgainIsNotTriedAgain) {
  RetryPolicy policy(kOptions, absl::InfiniteFuture());
  EXPECT_FALSE(policy.PauseAfter(absl::InternalError(""), {}, kNow).has_value());
  EXPECT_FALSE(policy.PauseAfter(absl::UnavailableError(""), {.may_be_done = true}, kNow).has_value());
  EXPECT_TRUE(policy.PauseAfter(absl::UnavailableError(""), {}, kNow).has_value());
}

// The first time, the memory may have been another call's.
TEST(RetryPolicyTest, WhoseMemoryCannotBeReadTwiceIsNotTriedAgain) {
  const absl::Status broken = FromGrpc({grpc::StatusCode::UNAVAILABLE, "Bad address"});
  RetryPolicy policy({.max_attempts = 9}, absl::InfiniteFuture());
  EXPECT_TRUE(policy.PauseAfter(broken, {}, kNow).has_value());
  EXPECT_TRUE(policy.PauseAfter(Draining(), {}, kNow).has_value());
  EXPECT_TRUE(policy.PauseAfter(broken, {}, kNow).has_value());
  EXPECT_FALSE(policy.PauseAfter(broken, {}, kNow).has_value());
  policy.Reset();
  EXPECT_TRUE(policy.PauseAfter(broken, {}, kNow).has_value());
}

TEST(RetryPolicyTest, AServerThatSaysWhenIsHeard) {
  RetryPolicy policy(kOptions, absl::InfiniteFuture());
  const absl::Duration pause = policy.PauseAfter(Busy(absl::Seconds(7)), {}, kNow).value();
  EXPECT_TRUE(pause >= absl::Seconds(7) && pause <= absl::Seconds(8.4)) << pause;
  EXPECT_LE(policy.PauseAfter(Busy(absl::Hours(7)), {}, kNow).value(), absl::Seconds(72));
}

TEST(RetryPolicyTest, AFullServerIsAskedOnWhereMuchHangsOnIt) {
  RetryPolicy policy(kOptions, absl::InfiniteFuture());
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(policy.PauseAfter(Busy(), {.patient = true}, kNow).has_value());
  EXPECT_LE(policy.PauseAfter(Busy(), {.patient = true}, kNow).value(), absl::Seconds(1));
  // Those pauses did not count as attempts.
  EXPECT_TRUE(policy.PauseAfter(Busy(), {}, kNow).has_value());
  EXPECT_TRUE(policy.PauseAfter(Draining(), {.patient = true}, kNow).has_value());
  EXPECT_FALSE(policy.PauseAfter(Draining(), {.patient = true}, kNow).has_value());
}

TEST(RetryPolicyTest, WhoWaitsForPlacesOfItsOwnBeginsTheRowAnew) {
  RetryPolicy policy(kOptions, absl::InfiniteFuture());
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(policy.PauseAfter(Busy(), {}, kNow).has_value()) << i;
    EXPECT_TRUE(policy.PauseAfter(Busy(), {.patient = true}, kNow).has_value()) << i;
  }
}

TEST(RetryPolicyTest, NoRetriesAreNoneAtAFullServerEither) {
  for (const int none : {1, 0, std::numeric_limits<int>::min()}) {
    RetryPolicy policy({.max_attempts = none}, absl::InfiniteFuture());
    EXPECT_FALSE(policy.PauseAfter(Busy(), {.patient = true}, kNow).has_value()) << none;
    EXPECT_FALSE(policy.PauseAfter(Draining(), {}, kNow).has_value()) << none;
  }
}

TEST(RetryTest, WhatMayBeTriedAgain) {
  using absl::StatusCode;
  EXPECT_TRUE(MayRetry(absl::UnavailableError("no connection"), {}));
  EXPECT_FALSE(MayRetry(absl::UnavailableError("no connection"), {.may_be_done = true}));
  EXPECT_TRUE(MayRetry(Draining(), {.may_be_done = true}));
  EXPECT_FALSE(MayRetry(Draining(), {.delivered = true}));
  EXPECT_TRUE(MayRetry(Busy(), {.may_be_done = true}));
  EXPECT_TRUE(MayRetry(MakeError(StatusCode::kResourceExhausted, "TOO_MANY_CALLS", ""), {}));
  EXPECT_FALSE(MayRetry(MakeError(StatusCode::kResourceExhausted, "ARRAY_TOO_LARGE", ""), {}));
  EXPECT_FALSE(MayRetry(MakeError(StatusCode::kResourceExhausted, "MESSAGE_TOO_LARGE", ""), {}));
  EXPECT_FALSE(MayRetry(absl::ResourceExhaustedError("gRPC's own"), {}));
  EXPECT_FALSE(MayRetry(absl::InternalError(""), {}));
}

}  // namespace
}  // namespace warpfold
