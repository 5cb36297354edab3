// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/server_info.h"

#include <gtest/gtest.h>

#include "kernels/geometry.h"
#include "tests/server/fake_backend.h"

namespace warpfold::server {
namespace {

TEST(ServerInfoTest, SaysHowToSendAndWhereStripesMayStart) {
  FakeBackend backend;
  const Service service(backend, Limits{.max_stream_bytes = 1 << 20, .advised_streams = 6},
                        [] { return absl::UnixEpoch(); });
  const v1::GetServerInfoResponse info = GetServerInfo(service);
  EXPECT_EQ(info.transfer_advice().streams(), 6u);
  EXPECT_EQ(info.transfer_advice().chunk_bytes(), 1u << 20);
  EXPECT_EQ(info.transfer_advice().min_stripe_bytes(), 8u << 20);
  EXPECT_EQ(info.limits().leaf_bytes(), 4096u);
  EXPECT_EQ(info.limits().max_first_byte(), kernels::kMaxArrayBytes - (1 << 20));
}

}  // namespace
}  // namespace warpfold::server
