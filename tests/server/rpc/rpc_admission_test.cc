// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls over the wire that wait for their admission before they send their messages.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "proto/metadata.h"
#include "tests/server/rpc/raw_call.h"
#include "tests/server/rpc/rpc_fixture.h"

namespace warpfold::server {
namespace {

constexpr char kReduce[] = "/warpfold.v1.ReductionService/Reduce";
const std::multimap<std::string, std::string> kAsks = {{metadata::kExpect, metadata::kAdmission}};

bool IsToldAdmitted(RawCall& call) {
  EXPECT_TRUE(call.ReadInitialMetadata());
  const auto& told = call.context().GetServerInitialMetadata();
  const auto found = told.find(metadata::kAdmitted);
  return found != told.end() && found->second == metadata::kYes;
}

TEST_F(RpcTest, WhoAsksHearsOfItsAdmissionBeforeItSendsAnything) {
  std::vector<std::unique_ptr<RawCall>> calls;
  for (int i = 0; i < kLimits.max_concurrent_reductions; ++i) {
    calls.push_back(std::make_unique<RawCall>(channel_, kReduce, kAsks));
    ASSERT_TRUE(IsToldAdmitted(*calls.back()));
  }
  RawCall refused(channel_, kReduce, kAsks);
  EXPECT_FALSE(IsToldAdmitted(refused));
  EXPECT_EQ(Reason(refused.Finish()), "TOO_MANY_REDUCTIONS");

  for (const v1::ReduceRequest& request : GoodRequests()) {
    EXPECT_TRUE(calls[0]->Write(request.SerializeAsString()));
  }
  EXPECT_TRUE(calls[0]->WritesDone());
  std::string answer;
  EXPECT_TRUE(calls[0]->Read(&answer));
  EXPECT_TRUE(response_.ParseFromString(answer));
  EXPECT_EQ(response_.reduction().results(0).int64_value(), 200'000);
  EXPECT_TRUE(calls[0]->Finish().ok());
  for (const auto& call : calls) call->context().TryCancel();
  Await([&] { return server_->in_progress() == 0; });
  ExpectUnharmed();
}

TEST_F(RpcTest, WhoAsksForSomethingElseHearsNothing) {
  for (const char* what : {"", "100-continue", "admission, at once"}) {
    RawCall call(channel_, kReduce, {{metadata::kExpect, what}});
    EXPECT_TRUE(call.WritesDone());
    EXPECT_FALSE(IsToldAdmitted(call));
    EXPECT_EQ(Reason(call.Finish()), "NO_COMMIT");
  }
  RawCall twice(channel_, kReduce,
                {{metadata::kExpect, metadata::kAdmission}, {metadata::kExpect, metadata::kAdmission}});
  EXPECT_TRUE(twice.WritesDone());
  EXPECT_FALSE(IsToldAdmitted(twice));
  EXPECT_EQ(Reason(twice.Finish()), "NO_COMMIT");
}

}  // namespace
}  // namespace warpfold::server
