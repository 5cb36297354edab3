// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A peer that reads no more but does not close: the kernel must end the connection, and with it the call
// whose chunk is stuck in it. Takes the 20 s that client/connection.cc sets.
#include <gtest/gtest.h>

#include <vector>

#include "client/client.h"
#include "tests/client/fake_service.h"
#include "tests/client/stalling_proxy.h"

namespace warpfold {
namespace {

TEST(DeadConnectionTest, CallEndsAndTheNextOneConnectsAnew) {
  FakeService service;
  const FakeServer server(service);
  StallingProxy proxy(server.port());
  Client client(proxy.target());
  proxy.StallAfter(4096);
  {
    const std::vector<std::int32_t> values(16 << 20, 1);
    const absl::Status status = client.Reduce(Spec{.operators = {"sum"}}, values).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  }
  proxy.Resume();
  const absl::StatusOr<std::int64_t> sum = client.Reduce(kSum, std::vector<std::int32_t>{1, 2, 3});
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(*sum, 6);
}

}  // namespace
}  // namespace warpfold
