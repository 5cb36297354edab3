// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/connections/channel_keeper.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/time/clock.h"
#include "client/client.h"
#include "tests/client/fake_service.h"

namespace warpfold {
namespace {

int OpenSockets() {
  int count = 0;
  for (const auto& descriptor : std::filesystem::directory_iterator("/proc/self/fd")) {
    struct stat info = {};
    if (stat(descriptor.path().c_str(), &info) == 0 && S_ISSOCK(info.st_mode)) ++count;
  }
  return count;
}

// The sockets of both sides are in this process.
TEST(ChannelKeeperTest, ClientsThatAreClosedWhileTheyConnectLeaveNoSocket) {
  constexpr int kClients = 1500;
  FakeService service;
  const FakeServer server(service);
  const std::vector<std::int32_t> values = {1, 2, 3};
  const int before = OpenSockets();
  int late = 0;
  for (int i = 0; i < kClients; ++i) {
    Client client(server.target());
    const auto sum = client.Reduce(kSum, values, {.timeout = absl::Microseconds(300 + 100 * (i % 16))});
    if (!sum.ok()) ++late;
  }
  EXPECT_GT(late, 0);
  const absl::Time end = absl::Now() + absl::Seconds(20);
  while ((ChannelsGivenUp() > 0 || OpenSockets() > before) && absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(50));
  }
  EXPECT_EQ(ChannelsGivenUp(), 0u);
  EXPECT_LE(OpenSockets(), before);
}

}  // namespace
}  // namespace warpfold
