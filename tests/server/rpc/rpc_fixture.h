// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A whole server in the test's process, listening on a free port of the loopback interface, over a fake
// backend and a clock that stands still until the test moves it.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/connections/grpc_process.h"
#include "google/rpc/status.pb.h"
#include "server/log/call_log.h"
#include "server/rpc/rpc_server.h"
#include "tests/server/fake_backend.h"
#include "tests/server/requests.h"
#include "warpfold/v1/reduction.grpc.pb.h"

namespace warpfold::server {

// The reason in a status' ErrorInfo, or "".
inline std::string Reason(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  if (!details.ParseFromString(status.error_details()) || details.details().empty()) return "";
  if (!details.details(0).UnpackTo(&info) || info.domain() != "warpfold") return "";
  return info.reason();
}

// Spins until `condition` holds; otherwise the test's own timeout ends it.
template <typename Condition>
void Await(Condition condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

class RpcTest : public testing::Test {
 protected:
  using Writer = std::unique_ptr<grpc::ClientWriter<v1::ReduceRequest>>;

  static constexpr Limits kLimits = {
      .max_stream_bytes = 64 << 20,
      .max_concurrent_reductions = 4,
      .call = {.idle = absl::Seconds(10), .duration = absl::Seconds(1'000'000)},
  };

  RpcTest() : service_(backend_, kLimits, [this] { return absl::FromUnixMillis(now_ms_); }) {
    LookUpCpuFrequency();  // tests connect several times at once
    service_.observer = &call_log_;
    auto server = RpcServer::Start(service_, {.listen = {"127.0.0.1:0"}, .tls = std::nullopt});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(server_->addresses()[0], grpc::InsecureChannelCredentials());
    stub_ = v1::ReductionService::NewStub(channel_);
  }

  // Sends the messages and half-closes, unless told to leave the stream open.
  grpc::Status Reduce(const std::vector<v1::ReduceRequest>& requests, bool half_close = true) {
    grpc::ClientContext context;
    response_.Clear();
    const Writer writer = stub_->Reduce(&context, &response_);
    for (const v1::ReduceRequest& request : requests) {
      if (!writer->Write(request)) break;
    }
    if (half_close) writer->WritesDone();
    return writer->Finish();
  }

  static std::vector<v1::ReduceRequest> GoodRequests() {
    const std::vector<std::int32_t> ones(100'000, 1);
    return {Header({v1::OPERATOR_SUM}), Chunk(ones), Chunk(ones), Commit(200'000, 800'000)};
  }

  // Other clients are served, and ended calls hold nothing.
  void ExpectUnharmed() {
    const grpc::Status status = Reduce(GoodRequests());
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response_.reduction().results(0).int64_value(), 200'000);
    Await([&] { return server_->in_progress() == 0; });
    ExpectNothingHeld();
  }

  void ExpectNothingHeld() {
    EXPECT_EQ(server_->slots().free, backend_.slots().size());
    EXPECT_EQ(server_->slots().waiting, 0u);
    EXPECT_EQ(backend_.behaviour.starts, backend_.behaviour.waits);
    EXPECT_EQ(backend_.behaviour.misuses, 0);
  }

  void AdvanceClock(int seconds) { now_ms_ += std::int64_t{seconds} * 1000; }

  // Runs `finish`, which waits for a call's response, while the clock goes on by these steps: repeatedly,
  // since the server may take the time with which it compares only after the first. A hundred steps a second:
  // if a busy machine stops one of the server's threads for 15 s of this clock, the server takes it for
  // stuck.
  template <class Finish>
  auto WhileTimePasses(int step_seconds, const Finish& finish) {
    std::atomic<bool> answered = false;
    std::thread time([&] {
      while (!answered) {
        AdvanceClock(step_seconds);
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    });
    auto answer = finish();
    answered = true;
    time.join();
    return answer;
  }

  std::atomic<std::int64_t> now_ms_ = absl::ToUnixMillis(absl::Now());
  FakeBackend backend_;
  Service service_;
  CallLog call_log_{service_.clock};
  std::unique_ptr<RpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::ReductionService::Stub> stub_;
  v1::ReduceResponse response_;
};

}  // namespace warpfold::server
