// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A server that has no place for more connections of a client: calls share those that there are.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/client.h"
#include "tests/client/fake_service.h"
#include "tests/client/stalling_proxy.h"

namespace warpfold {
namespace {

TEST(RefusedConnectionTest, ACallBesideALongOneUsesItsConnection) {
  FakeService service;
  const FakeServer server(service);
  StallingProxy proxy(server.port());
  proxy.AcceptAtMost(1);
  Client client(proxy.target());
  const auto reduce = [&client] { return client.Reduce(kSum, std::vector<std::int32_t>{1, 2, 3}).status(); };
  absl::Notification begun;
  absl::Notification end;
  service.on_start = [&](int call, grpc::ServerContext&) {
    if (call == 0) {
      begun.Notify();
      end.WaitForNotification();
    }
    return grpc::Status::OK;
  };
  std::thread long_call([&] { EXPECT_TRUE(reduce().ok()); });
  begun.WaitForNotification();
  for (int i = 0; i < 5; ++i) {
    const absl::Status status = reduce();
    EXPECT_TRUE(status.ok()) << status;
  }
  // The others did not try again within the second that follows a refusal.
  EXPECT_LE(proxy.refused(), 3);
  EXPECT_GE(proxy.refused(), 1);
  end.Notify();
  long_call.join();
}

TEST(RefusedConnectionTest, ManyCallsAtOnce) {
  for (const int most : {1, 2, 3}) {
    FakeService service;
    const FakeServer server(service);
    StallingProxy proxy(server.port());
    proxy.AcceptAtMost(most);
    Client client(proxy.target());
    service.on_start = [](int, grpc::ServerContext&) {
      absl::SleepFor(absl::Milliseconds(5));
      return grpc::Status::OK;
    };
    std::vector<std::thread> callers;
    for (int i = 0; i < 8; ++i) {
      callers.emplace_back([&client] {
        for (int call = 0; call < 20; ++call) {
          const absl::StatusOr<std::int64_t> sum = client.Reduce(kSum, std::vector<std::int32_t>{1, 2, 3});
          EXPECT_TRUE(sum.ok()) << sum.status();
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_GE(proxy.refused(), 1);
  }
}

// Connections that seem to work, but whose server has ended, do not use up the attempts of a call.
TEST(LostConnectionsTest, AServerThatComesBackIsFoundWhateverConnectionsThereWere) {
  FakeService service;
  service.on_start = [](int, grpc::ServerContext&) {
    absl::SleepFor(absl::Milliseconds(20));
    return grpc::Status::OK;
  };
  std::optional<FakeServer> server(service);
  Client client(server->target());
  const auto reduce = [&client] { return client.Reduce(kSum, std::vector<std::int32_t>{1, 2, 3}).status(); };
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) callers.emplace_back([&] { EXPECT_TRUE(reduce().ok()); });
  for (std::thread& caller : callers) caller.join();
  const int port = server->port();
  server.reset();
  std::thread comes_back([&] {
    absl::SleepFor(absl::Milliseconds(150));
    server.emplace(service, port);
  });
  const absl::Status status = reduce();
  comes_back.join();
  EXPECT_TRUE(status.ok()) << status;
}

// Nor is a server asked again that has ended, over a connection that seems to work, while another serves.
TEST(LostConnectionsTest, AnotherServerIsUsed) {
  FakeService service;
  service.on_start = [](int, grpc::ServerContext&) {
    absl::SleepFor(absl::Milliseconds(2));
    return grpc::Status::OK;
  };
  std::optional<FakeServer> first(service);
  const FakeServer second(service);
  Client client({first->target(), second.target()}, {.max_attempts = 2});
  std::atomic<bool> ends = false;
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      while (!ends) {
        const auto sum = client.Reduce(kSum, std::vector<std::int32_t>{1, 2, 3});
        EXPECT_TRUE(sum.ok()) << sum.status();
      }
    });
  }
  absl::SleepFor(absl::Milliseconds(100));
  first.reset();
  absl::SleepFor(absl::Milliseconds(200));
  ends = true;
  for (std::thread& caller : callers) caller.join();
}

}  // namespace
}  // namespace warpfold
