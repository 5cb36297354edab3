// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Somebody sets the time of day of a machine on which the server runs.
#include "absl/time/clock.h"
#include "tests/server/rpc/rpc_fixture.h"
#include "tests/set_clock.h"

namespace warpfold::server {
namespace {

TEST_F(RpcTest, ACallKeepsItsTimeWhenTheClockIsSet) {
  // Once Abseil has known the clock for half a second, it estimates the time by the processor's counter, and
  // notices what is set up to two seconds later.
  for (int i = 0; i < 7; ++i) {
    absl::Now();
    absl::SleepFor(absl::Milliseconds(100));
  }
  ClockSetter clock;
  for (const int ahead : {-30, 30, -3600}) {
    clock.Set(std::chrono::seconds(ahead));
    v1::ReduceArrayRequest array;
    *array.mutable_spec() = Header({v1::OPERATOR_SUM}).header().spec();
    v1::ReduceArrayResponse response;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    const grpc::Status status = stub_->ReduceArray(&context, array, &response);
    EXPECT_TRUE(status.ok()) << ahead << ": " << status.error_message();
  }
}

}  // namespace
}  // namespace warpfold::server
