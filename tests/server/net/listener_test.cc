// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/listener.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "tests/temporary_folder.h"

namespace warpfold::server {
namespace {

// A server that is about to listen has a socket file on which nobody listens yet, like one that was killed.
TEST(ListenerTest, OfTwoThatStartAtOnceOneGetsThePath) {
  constexpr int kRounds = 1000;
  const TemporaryFolder folder;
  for (int round = 0; round < kRounds; ++round) {
    std::array<absl::StatusOr<Listener>, 2> listeners = {Listener::Resolve("unix:" + folder.Path("socket")),
                                                         Listener::Resolve("unix:" + folder.Path("socket"))};
    std::array<bool, 2> listen = {};
    std::thread other([&] { listen[1] = listeners[1]->Listen().ok(); });
    listen[0] = listeners[0]->Listen().ok();
    other.join();
    ASSERT_EQ(listen[0] + listen[1], 1) << round;
  }
}

}  // namespace
}  // namespace warpfold::server
