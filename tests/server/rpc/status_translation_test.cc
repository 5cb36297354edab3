// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/status_translation.h"

#include <gtest/gtest.h>

#include "google/rpc/status.pb.h"
#include "kernels/error.h"
#include "server/core/admission/admission.h"

namespace warpfold::server {
namespace {

google::rpc::Status DetailsOf(const absl::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(ToGrpcStatus(status).error_details()));
  return details;
}

TEST(StatusTranslationTest, AFullServerSaysWhenToComeAgain) {
  Admission admission(0);
  const absl::Status refusal = admission.Enter().status();
  ASSERT_TRUE(absl::IsResourceExhausted(refusal));
  const google::rpc::Status details = DetailsOf(refusal);
  ASSERT_EQ(details.details_size(), 2);
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(details.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "TOO_MANY_REDUCTIONS");
  google::rpc::RetryInfo retry;
  ASSERT_TRUE(details.details(1).UnpackTo(&retry));
  EXPECT_EQ(retry.retry_delay().seconds(), 0);
  EXPECT_EQ(retry.retry_delay().nanos(), 100'000'000);
}

TEST(StatusTranslationTest, APauseOfSecondsHasSeconds) {
  const google::rpc::Status details = DetailsOf(kernels::Error(
      absl::StatusCode::kResourceExhausted, "TOO_MANY_REDUCTIONS", "x", {{"retry_ms", "2500"}}));
  google::rpc::RetryInfo retry;
  ASSERT_EQ(details.details_size(), 2);
  ASSERT_TRUE(details.details(1).UnpackTo(&retry));
  EXPECT_EQ(retry.retry_delay().seconds(), 2);
  EXPECT_EQ(retry.retry_delay().nanos(), 500'000'000);
}

TEST(StatusTranslationTest, OtherErrorsDoNot) {
  EXPECT_EQ(DetailsOf(kernels::Error(absl::StatusCode::kInvalidArgument, "BAD_HEADER", "x")).details_size(),
            1);
}

}  // namespace
}  // namespace warpfold::server
