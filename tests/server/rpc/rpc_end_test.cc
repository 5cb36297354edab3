// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What ends calls, and the server: clients that leave, deadlines, limits, a drain, a lost device.
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "server/net/unix_socket.h"
#include "tests/server/rpc/raw_call.h"
#include "tests/server/rpc/rpc_fixture.h"
#include "tests/temporary_folder.h"

namespace warpfold::server {
namespace {

// grpc.health.v1.HealthCheckResponse, serialized.
constexpr char kNotServing[] = "\x08\x02";

TEST_F(RpcTest, AClientThatVanishes) {
  backend_.behaviour.SetBlocked(true);
  {
    grpc::ClientContext context;
    const Writer writer = stub_->Reduce(&context, &response_);
    writer->Write(Header({v1::OPERATOR_SUM}));
    writer->Write(Chunk(std::vector<char>(1 << 20)));
    Await([&] { return backend_.behaviour.working() > 0; });
    context.TryCancel();
    EXPECT_EQ(writer->Finish().error_code(), grpc::CANCELLED);
  }
  backend_.behaviour.SetBlocked(false);
  Await([&] { return server_->in_progress() == 0; });
  ExpectUnharmed();
}

TEST_F(RpcTest, ADeadlineInTheMiddle) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
  const Writer writer = stub_->Reduce(&context, &response_);
  writer->Write(Header({v1::OPERATOR_SUM}));
  writer->Write(Chunk(std::vector<char>(1000)));
  EXPECT_EQ(writer->Finish().error_code(), grpc::DEADLINE_EXCEEDED);
  Await([&] { return server_->in_progress() == 0; });
  ExpectUnharmed();
}

TEST_F(RpcTest, ADeadlineWhateverTheWallClockSays) {
  constexpr int kWeek = 7 * 24 * 3600;
  constexpr int kDay = 24 * 3600;
  for (const int ahead : {-kWeek, kWeek}) {
    AdvanceClock(ahead);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::hours(24));
    const Writer writer = stub_->Reduce(&context, &response_);
    writer->Write(Header({v1::OPERATOR_SUM}));
    // The idle limit ends it long before a day is over, unless the day passes at once.
    EXPECT_EQ(Reason(WhileTimePasses(11, [&] { return writer->Finish(); })), "IDLE") << ahead;
    grpc::ClientContext hurried_context;
    hurried_context.set_deadline(std::chrono::system_clock::now() + std::chrono::hours(24));
    const Writer hurried = stub_->Reduce(&hurried_context, &response_);
    hurried->Write(Header({v1::OPERATOR_SUM}));
    EXPECT_EQ(Reason(WhileTimePasses(2 * kDay, [&] { return hurried->Finish(); })), "DEADLINE") << ahead;
  }
  ExpectUnharmed();
}

TEST_F(RpcTest, ADeadlineWhileItWaitsForASlot) {
  backend_.behaviour.SetBlocked(true);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::hours(24));
  const Writer writer = stub_->Reduce(&context, &response_);
  writer->Write(Header({v1::OPERATOR_SUM}));
  writer->Write(Chunk(std::vector<char>(200'000)));  // more than a shard's one slot holds
  Await([&] { return server_->slots().waiting == 1; });
  AdvanceClock(2 * 24 * 3600);  // gRPC rounds up the deadline that it sends
  EXPECT_EQ(Reason(writer->Finish()), "DEADLINE");
  Await([&] { return server_->in_progress() == 0; });
  backend_.behaviour.SetBlocked(false);
  Await([&] { return server_->slots().free == backend_.slots().size(); });
  ExpectUnharmed();
}

TEST_F(RpcTest, AUnaryCallThatStalls) {
  // Its message never comes.
  for (const char* method : {"ReduceArray", "Merge", "GetServerInfo"}) {
    RawCall call(channel_, std::string("/warpfold.v1.ReductionService/") + method);
    EXPECT_EQ(Reason(WhileTimePasses(11, [&] { return call.Finish(); })), "IDLE") << method;
  }
  ExpectUnharmed();
}

TEST_F(RpcTest, TheIdleLimit) {
  grpc::ClientContext context;
  const Writer writer = stub_->Reduce(&context, &response_);
  writer->Write(Header({v1::OPERATOR_SUM}));
  Await([&] { return server_->in_progress() == 1; });
  const grpc::Status status = WhileTimePasses(11, [&] { return writer->Finish(); });
  EXPECT_EQ(status.error_code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_EQ(Reason(status), "IDLE");
  ExpectUnharmed();
}

TEST_F(RpcTest, EmptyChunksDoNotKeepAPlace) {
  grpc::ClientContext context;
  const Writer writer = stub_->Reduce(&context, &response_);
  writer->Write(Header({v1::OPERATOR_SUM}));
  for (int i = 0; i < 5000 && writer->Write(Chunk("", 0)); ++i) {
    AdvanceClock(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  writer->WritesDone();
  EXPECT_EQ(Reason(writer->Finish()), "IDLE");
  ExpectUnharmed();
}

TEST_F(RpcTest, ATrickleDoesNotKeepAPlace) {
  grpc::ClientContext context;
  const Writer writer = stub_->Reduce(&context, &response_);
  writer->Write(Header({v1::OPERATOR_SUM}));
  for (int i = 0; i < 5000 && writer->Write(Chunk("\0", 1)); ++i) {
    AdvanceClock(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  writer->WritesDone();
  EXPECT_EQ(Reason(writer->Finish()), "RATE");
  ExpectUnharmed();
}

TEST_F(RpcTest, TheDurationLimit) {
  backend_.behaviour.SetBlocked(true);  // busy, not idle
  grpc::ClientContext context;
  const Writer writer = stub_->Reduce(&context, &response_);
  writer->Write(Header({v1::OPERATOR_SUM}));
  writer->Write(Chunk(std::vector<char>(100'000)));
  writer->Write(Commit(25'000, 100'000));
  writer->WritesDone();
  Await([&] { return backend_.behaviour.working() > 0; });
  AdvanceClock(1'000'001);
  const grpc::Status status = writer->Finish();
  EXPECT_EQ(status.error_code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_EQ(Reason(status), "DURATION");
  backend_.behaviour.SetBlocked(false);
  Await([&] { return server_->in_progress() == 0; });
  ExpectUnharmed();
}

TEST_F(RpcTest, DrainLetsReductionsFinishAndRefusesNewOnes) {
  grpc::ClientContext context;
  const Writer writer = stub_->Reduce(&context, &response_);
  const std::vector<v1::ReduceRequest> requests = GoodRequests();
  writer->Write(requests[0]);
  writer->Write(requests[1]);
  Await([&] { return server_->in_progress() == 1; });
  std::thread drain([&] { server_->Drain(absl::InfiniteDuration()); });
  // Rejected as soon as the drain has begun; until then it is a reduction like any other.
  Await([&] {
    grpc::ClientContext other_context;
    v1::ReduceResponse other_response;
    const Writer other = stub_->Reduce(&other_context, &other_response);
    other->WritesDone();
    return other->Finish().error_code() == grpc::UNAVAILABLE;
  });
  writer->Write(requests[2]);
  writer->Write(requests[3]);
  writer->WritesDone();
  EXPECT_TRUE(writer->Finish().ok());
  EXPECT_EQ(response_.reduction().results(0).int64_value(), 200'000);
  drain.join();
  EXPECT_EQ(backend_.behaviour.starts, backend_.behaviour.waits);
}

// A stripe that was in progress when the drain began, and the Merge for which it was sent.
TEST_F(RpcTest, DrainLetsStripesBeMerged) {
  grpc::ClientContext context;
  const Writer writer = stub_->Reduce(&context, &response_);
  std::vector<v1::ReduceRequest> requests = GoodRequests();
  requests[0].mutable_header()->set_return_state(true);
  writer->Write(requests[0]);
  Await([&] { return service_.admission.AwaitsCalls(service_.clock()); });
  std::atomic<bool> drained = false;
  std::thread drain([&] {
    server_->Drain(absl::InfiniteDuration());
    drained = true;
  });
  Await([&] { return Reason(Reduce(GoodRequests())) == "DRAINING"; });
  response_.Clear();
  for (std::size_t i = 1; i < requests.size(); ++i) writer->Write(requests[i]);
  writer->WritesDone();
  EXPECT_TRUE(writer->Finish().ok());
  Await([&] { return server_->in_progress() == 0; });

  v1::MergeRequest merge;
  *merge.mutable_spec() = requests[0].header().spec();
  *merge.add_states() = response_.reduction().state();
  grpc::ClientContext merge_context;
  v1::MergeResponse merged;
  const grpc::Status status = stub_->Merge(&merge_context, merge, &merged);
  EXPECT_FALSE(drained);
  AdvanceClock(static_cast<int>(absl::ToInt64Seconds(kMergeWait)));
  drain.join();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(merged.reduction().results(0).int64_value(), 200'000);
}

TEST_F(RpcTest, DrainStopsWhatDoesNotFinish) {
  grpc::ClientContext context;
  const Writer writer = stub_->Reduce(&context, &response_);
  writer->Write(Header({v1::OPERATOR_SUM}));
  Await([&] { return server_->in_progress() == 1; });
  server_->Drain(absl::ZeroDuration());
  const grpc::Status status = writer->Finish();
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(Reason(status), "DRAINING");
  EXPECT_EQ(backend_.behaviour.starts, backend_.behaviour.waits);
}

// Otherwise a rejected client that connects again to a name with several addresses comes here again. A single
// drain may hide which of the two came first.
TEST_F(RpcTest, WhoeverIsRefusedByADrainFindsTheAddressClosed) {
  constexpr int kDrains = 20;
  for (int i = 0; i < kDrains; ++i) {
    const TemporaryFolder folder;
    const std::string path = folder.Path("socket");
    FakeBackend backend;
    Service service(backend, kLimits, absl::Now);
    auto server = RpcServer::Start(service, {.listen = {"unix:" + path}, .tls = std::nullopt});
    ASSERT_TRUE(server.ok()) << server.status();
    ASSERT_TRUE(UnixSocketInUse(path));
    std::thread drain([&] { (*server)->Drain(absl::ZeroDuration()); });
    while (service.admission.Enter(Admission::Kind::kReduction, {}).ok()) continue;
    const bool listens = UnixSocketInUse(path);
    drain.join();
    ASSERT_FALSE(listens) << "drain " << i;
  }
}

// This holds for everything that has not ended when the server does: nobody tries again after CANCELLED.
TEST_F(RpcTest, DrainEndsAllMethodsWithItsReason) {
  std::vector<std::unique_ptr<RawCall>> calls;
  for (const char* method : {"ReduceArray", "Merge", "GetServerInfo"}) {
    calls.push_back(
        std::make_unique<RawCall>(channel_, std::string("/warpfold.v1.ReductionService/") + method));
  }
  Await([&] { return server_->in_progress() == 2; });
  server_->Drain(absl::ZeroDuration());
  for (const auto& call : calls) {
    const grpc::Status status = call->Finish();
    EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
    EXPECT_EQ(Reason(status), "DRAINING");
  }
}

// As in an upload over a slow network: gRPC reports its message only when all of it has come.
TEST_F(RpcTest, DrainWaitsForSlowUploadsAndEndsThemWithItsReason) {
  constexpr int kDrainSeconds = 5;  // less than a client may be silent
  std::vector<std::unique_ptr<RawCall>> uploads;
  for (const char* method : {"ReduceArray", "Merge"}) {
    uploads.push_back(
        std::make_unique<RawCall>(channel_, std::string("/warpfold.v1.ReductionService/") + method));
  }
  Await([&] { return server_->in_progress() == 2; });
  std::atomic<bool> drained = false;
  std::thread drain([&] {
    server_->Drain(absl::Seconds(kDrainSeconds));
    drained = true;
  });
  Await([&] { return Reason(Reduce(GoodRequests())) == "DRAINING"; });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // in which a drain without a grace ends them
  AdvanceClock(kDrainSeconds - 1);
  server_->slots();  // waits for each shard
  EXPECT_EQ(server_->in_progress(), 2);
  EXPECT_FALSE(drained);
  AdvanceClock(1);
  for (const auto& upload : uploads) {
    const grpc::Status status = upload->Finish();
    EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
    EXPECT_EQ(Reason(status), "DRAINING");
  }
  drain.join();
}

// An earlier signal ends the process; a client that can connect is drained.
TEST_F(RpcTest, SaysWhenTheFirstAddressIsAboutToListen) {
  const TemporaryFolder folder;
  const std::string path = folder.Path("socket");
  int called = 0;
  const auto start = [&] {
    ++called;
    EXPECT_FALSE(UnixSocketInUse(path));
  };
  const auto other = RpcServer::Start(
      service_, {.listen = {"unix:" + path, "127.0.0.1:0"}, .tls = {}, .before_listening = start});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(called, 1);
  EXPECT_TRUE(UnixSocketInUse(path));
}

TEST_F(RpcTest, ALostDeviceIsAnsweredEvenWhileItHangs) {
  backend_.behaviour.SetBlocked(true);
  grpc::ClientContext context;
  const Writer writer = stub_->Reduce(&context, &response_);
  writer->Write(Header({v1::OPERATOR_SUM}));
  writer->Write(Chunk(std::vector<char>(100'000)));
  Await([&] { return backend_.behaviour.working() > 0; });
  backend_.faulty = true;
  const grpc::Status status = writer->Finish();
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(Reason(status), "DEVICE_LOST");
  Await([&] { return server_->faulted(); });
  EXPECT_EQ(Reason(Reduce(GoodRequests())), "DEVICE_LOST");
  RawCall check(channel_, "/grpc.health.v1.Health/Check");
  check.Write("");
  check.WritesDone();
  std::string answer;
  EXPECT_TRUE(check.Read(&answer));
  EXPECT_EQ(answer, kNotServing);
  backend_.behaviour.SetBlocked(false);
}

}  // namespace
}  // namespace warpfold::server
