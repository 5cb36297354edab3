// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A peer that loses power after it has received the whole array: nothing is left to write with which the
// kernel could give up. Takes the 20 s for which client/connections/connection.cc lets a ping wait.
#include <gtest/gtest.h>

#include <vector>

#include "client/client.h"
#include "tests/client/fake_service.h"
#include "tests/client/stalling_proxy.h"

namespace warpfold {
namespace {

TEST(DeadPeerTest, CallEndsAfterTheCommit) {
  FakeService service;
  const FakeServer server(service);
  StallingProxy proxy(server.port());
  service.on_commit = [&](const SeenCall&, grpc::ServerContext&) {
    proxy.Swallow();
    return grpc::Status::OK;
  };
  Client client(proxy.target(), {.keepalive = absl::Seconds(1)});
  const std::vector<std::int32_t> values(1 << 20, 1);
  const absl::Status status = client.Reduce(kSum, values, {.timeout = absl::Minutes(2)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

}  // namespace
}  // namespace warpfold
