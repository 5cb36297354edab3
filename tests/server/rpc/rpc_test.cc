// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The service over the wire: its methods, its limit on concurrent reductions, its health.
#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <thread>

#include "server/log/logging.h"
#include "tests/server/rpc/raw_call.h"
#include "tests/server/rpc/rpc_fixture.h"

namespace warpfold::server {
namespace {

// grpc.health.v1.HealthCheckResponse, serialized.
constexpr char kServing[] = "\x08\x01";
constexpr char kNotServing[] = "\x08\x02";
constexpr char kServiceUnknown[] = "\x08\x03";

std::string HealthRequest(const std::string& service) {
  return service.empty() ? "" : "\x0a" + std::string(1, static_cast<char>(service.size())) + service;
}

TEST_F(RpcTest, AllMethodsAnswer) {
  v1::ReduceRequest header = Header({v1::OPERATOR_SUM, v1::OPERATOR_MAX});
  header.mutable_header()->set_return_state(true);
  header.mutable_header()->set_request_id("rpc_test");
  const std::vector<std::int32_t> elements = {5, -7, 3};
  ASSERT_TRUE(Reduce({header, Chunk(elements), Commit(3, 12)}).ok());
  EXPECT_EQ(response_.reduction().results(0).int64_value(), 1);
  EXPECT_EQ(response_.reduction().results(1).int64_value(), 5);

  v1::ReduceArrayRequest array;
  *array.mutable_spec() = header.header().spec();
  array.set_data(elements.data(), 12);
  v1::ReduceArrayResponse array_response;
  grpc::ClientContext array_context;
  ASSERT_TRUE(stub_->ReduceArray(&array_context, array, &array_response).ok());
  EXPECT_EQ(array_response.reduction().results(0).int64_value(), 1);

  v1::MergeRequest merge;
  *merge.mutable_spec() = header.header().spec();
  *merge.add_states() = response_.reduction().state();
  v1::MergeResponse merge_response;
  grpc::ClientContext merge_context;
  ASSERT_TRUE(stub_->Merge(&merge_context, merge, &merge_response).ok());
  EXPECT_EQ(merge_response.reduction().results(1).int64_value(), 5);

  v1::GetServerInfoResponse info;
  grpc::ClientContext info_context;
  ASSERT_TRUE(stub_->GetServerInfo(&info_context, {}, &info).ok());
  EXPECT_EQ(info.device(), "fake:0");
  ExpectUnharmed();
}

TEST_F(RpcTest, TheLogNamesTheRequest) {
  SetUpLogging(LogFormat::kText, LogLevel::kInfo);
  testing::internal::CaptureStderr();
  v1::ReduceRequest header = Header({v1::OPERATOR_SUM});
  header.mutable_header()->set_request_id("a stream");
  EXPECT_TRUE(Reduce({header, Commit(0, 0)}).ok());
  v1::ReduceArrayRequest array;
  *array.mutable_spec() = header.header().spec();
  v1::ReduceArrayResponse array_response;
  for (const char* request_id : {"an array", "two\nlines"}) {
    array.set_request_id(request_id);
    grpc::ClientContext context;
    static_cast<void>(stub_->ReduceArray(&context, array, &array_response));
  }
  Await([&] { return server_->in_progress() == 0; });
  // The line follows the response and the end of the reduction.
  server_.reset();
  FlushLog();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, testing::ContainsRegex("Reduce OK bytes=0 .* peer=ipv4:127.0.0.1:[0-9]+ "
                                          "identity=anonymous request_id=\"a stream\""));
  EXPECT_THAT(log, testing::ContainsRegex("ReduceArray OK .* request_id=\"an array\""));
  EXPECT_THAT(log, testing::ContainsRegex("ReduceArray INVALID_ARGUMENT .* reason=BAD_HEADER"));
  EXPECT_THAT(log, testing::Not(testing::HasSubstr("lines")));
}

TEST_F(RpcTest, TheSameInProcess) {
  stub_ = v1::ReductionService::NewStub(server_->InProcessChannel({}));
  ExpectUnharmed();
}

TEST_F(RpcTest, ManyStreamsAtOnceWithRandomCancels) {
  std::vector<std::thread> clients;
  for (int c = 0; c < 4; ++c) {
    clients.emplace_back([&, c] {
      std::mt19937 random(c);  // NOLINT(cert-msc51-cpp): the same on every run
      for (int i = 0; i < 30; ++i) {
        grpc::ClientContext context;
        v1::ReduceResponse response;
        const Writer writer = stub_->Reduce(&context, &response);
        const std::size_t cancel_before = random() % 8;
        const std::vector<v1::ReduceRequest> requests = GoodRequests();
        for (std::size_t r = 0; r < requests.size(); ++r) {
          if (r == cancel_before) context.TryCancel();
          if (!writer->Write(requests[r])) break;
        }
        writer->WritesDone();
        const grpc::Status status = writer->Finish();
        if (status.ok()) {
          EXPECT_EQ(response.reduction().results(0).int64_value(), 200'000);
        } else if (cancel_before >= requests.size()) {
          // A cancelled call's place may be given back just after its client has turned to the next.
          EXPECT_EQ(Reason(status), "TOO_MANY_REDUCTIONS") << status.error_message();
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  Await([&] { return server_->in_progress() == 0; });
  ExpectUnharmed();
}

// Each shard of the fixture has one slot: two streams of one connection share it.
TEST_F(RpcTest, ASlotThatWaitsForItsClientIsCalledIn) {
  grpc::ClientContext context;
  const Writer slow = stub_->Reduce(&context, &response_);
  const std::vector<v1::ReduceRequest> requests = GoodRequests();
  slow->Write(requests[0]);
  slow->Write(requests[1]);
  const int starts = backend_.behaviour.starts;
  for (int i = 0; i < 3; ++i) {
    grpc::ClientContext other_context;
    v1::ReduceResponse other_response;
    const Writer other = stub_->Reduce(&other_context, &other_response);
    for (const v1::ReduceRequest& request : requests) other->Write(request);
    other->WritesDone();
    EXPECT_TRUE(other->Finish().ok());
    EXPECT_EQ(other_response.reduction().results(0).int64_value(), 200'000);
  }
  EXPECT_GT(backend_.behaviour.starts, starts);
  slow->Write(requests[2]);
  slow->Write(requests[3]);
  slow->WritesDone();
  EXPECT_TRUE(slow->Finish().ok());
  EXPECT_EQ(response_.reduction().results(0).int64_value(), 200'000);
  ExpectUnharmed();
}

TEST_F(RpcTest, EachResultHasItsOwnError) {
  v1::ReduceRequest header =
      Header({v1::OPERATOR_SUM, v1::OPERATOR_MAX, v1::OPERATOR_SUM_OF_SQUARES}, v1::ELEMENT_TYPE_INT64);
  const std::vector<std::int64_t> large(2, INT64_MAX);
  ASSERT_TRUE(Reduce({header, Chunk(large), Commit(2, 16)}).ok());
  for (const int overflown : {0, 2}) {
    const v1::OperatorResult& result = response_.reduction().results(overflown);
    EXPECT_EQ(result.value_case(), v1::OperatorResult::VALUE_NOT_SET);
    EXPECT_EQ(result.error().code(), grpc::OUT_OF_RANGE);
    EXPECT_EQ(result.error().reason(), "OVERFLOW");
  }
  EXPECT_EQ(response_.reduction().results(1).int64_value(), INT64_MAX);
  EXPECT_FALSE(response_.reduction().results(1).has_error());

  // Without any value there is nothing to return.
  header = Header({v1::OPERATOR_SUM, v1::OPERATOR_SUM_OF_SQUARES}, v1::ELEMENT_TYPE_INT64);
  EXPECT_EQ(Reason(Reduce({header, Chunk(large), Commit(2, 16)})), "OVERFLOW");
  ExpectUnharmed();
}

TEST_F(RpcTest, AMergeIsAdmittedWhereStripesFillTheServer) {
  v1::ReduceRequest header = Header({v1::OPERATOR_SUM});
  header.mutable_header()->set_return_state(true);
  ASSERT_TRUE(Reduce({header, Chunk(std::vector<std::int32_t>(3, 2)), Commit(3, 12)}).ok());
  v1::MergeRequest merge;
  *merge.mutable_spec() = header.header().spec();
  *merge.add_states() = response_.reduction().state();
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<Writer> writers;
  for (int i = 0; i < kLimits.max_concurrent_reductions; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    writers.push_back(stub_->Reduce(contexts.back().get(), &response_));
  }
  Await([&] { return server_->in_progress() == kLimits.max_concurrent_reductions; });
  grpc::ClientContext context;
  v1::MergeResponse merged;
  const grpc::Status status = stub_->Merge(&context, merge, &merged);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(merged.reduction().results(0).int64_value(), 6);
  for (const auto& each : contexts) each->TryCancel();
  for (const Writer& writer : writers) writer->Finish();
  Await([&] { return server_->in_progress() == 0; });
  ExpectUnharmed();
}

TEST_F(RpcTest, UnknownMethodsAndServices) {
  for (const char* method : {"/warpfold.v1.ReductionService/NoSuch", "/no.Such/Method"}) {
    RawCall call(channel_, method);
    EXPECT_EQ(call.Finish().error_code(), grpc::UNIMPLEMENTED);
  }
  RawCall check(channel_, "/grpc.health.v1.Health/Check");
  check.Write(HealthRequest("no.Such"));
  const grpc::Status unknown = check.Finish();
  EXPECT_EQ(unknown.error_code(), grpc::NOT_FOUND) << "as the protocol of health checks has it";
  EXPECT_EQ(Reason(unknown), "UNKNOWN_SERVICE");
  for (const char* service :
       {"", "warpfold.v1.ReductionService", "warpfold.v1.SegmentService", "warpfold.v1.ArrayService"}) {
    RawCall of_service(channel_, "/grpc.health.v1.Health/Check");
    of_service.Write(HealthRequest(service));
    EXPECT_TRUE(of_service.Finish().ok()) << service;
  }
  RawCall watch(channel_, "/grpc.health.v1.Health/Watch");
  watch.Write(HealthRequest("no.Such"));
  watch.WritesDone();
  std::string answer;
  ASSERT_TRUE(watch.Read(&answer));
  EXPECT_EQ(answer, kServiceUnknown);
  watch.context().TryCancel();
  ExpectUnharmed();
}

TEST_F(RpcTest, TooManyReductions) {
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<Writer> writers;
  for (int i = 0; i < kLimits.max_concurrent_reductions; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    writers.push_back(stub_->Reduce(contexts.back().get(), &response_));
  }
  Await([&] { return server_->in_progress() == kLimits.max_concurrent_reductions; });
  const grpc::Status refused = Reduce({Header({v1::OPERATOR_SUM})}, false);
  EXPECT_EQ(refused.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Reason(refused), "TOO_MANY_REDUCTIONS");
  for (const Writer& writer : writers) {
    writer->WritesDone();
    EXPECT_EQ(Reason(writer->Finish()), "NO_COMMIT");
  }
  Await([&] { return server_->in_progress() == 0; });
  ExpectUnharmed();
}

TEST_F(RpcTest, HealthIsCheckedAndWatched) {
  for (const std::string service : {"", "warpfold.v1.ReductionService"}) {
    RawCall check(channel_, "/grpc.health.v1.Health/Check");
    check.Write(HealthRequest(service));
    check.WritesDone();
    std::string answer;
    EXPECT_TRUE(check.Read(&answer));
    EXPECT_EQ(answer, kServing);
    EXPECT_TRUE(check.Finish().ok());
  }
  RawCall watch(channel_, "/grpc.health.v1.Health/Watch");
  watch.Write(HealthRequest("warpfold.v1.ReductionService"));
  watch.WritesDone();
  std::string answer;
  ASSERT_TRUE(watch.Read(&answer));
  EXPECT_EQ(answer, kServing);
  // Without a reduction the drain ends at once, and closes connections: a gRPC client may then drop what it
  // has received and not yet read.
  grpc::ClientContext context;
  const Writer reduction = stub_->Reduce(&context, &response_);
  Await([&] { return server_->in_progress() == 1; });
  std::thread drain([&] { server_->Drain(absl::InfiniteDuration()); });
  EXPECT_TRUE(watch.Read(&answer));
  EXPECT_EQ(answer, kNotServing);
  watch.context().TryCancel();
  context.TryCancel();
  reduction->Finish();
  drain.join();
}

// If an orchestrator's probe gets no response, it ends the process.
TEST_F(RpcTest, ProbesAreAnsweredBesideCallsThatStall) {
  constexpr int kPlacesOfAHost = 56;
  grpc::ChannelArguments own_connection;
  own_connection.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // More calls that send nothing than one host may have, over several connections: twice as many, since here,
  // where client and server share gRPC's poller, a connection stands still now and then.
  const auto stall = [&](const std::string& method) {
    std::vector<std::unique_ptr<RawCall>> calls;
    for (int connection = 0; connection < 8; ++connection) {
      const auto channel = grpc::CreateCustomChannel(server_->addresses()[0],
                                                     grpc::InsecureChannelCredentials(), own_connection);
      for (int i = 0; i < 16; ++i) calls.push_back(std::make_unique<RawCall>(channel, method));
    }
    return calls;
  };
  const auto ask = [&](const std::string& method) {
    RawCall call(channel_, method);
    call.Write("");
    call.WritesDone();
    return call.Finish();
  };
  const std::string info = "/warpfold.v1.ReductionService/GetServerInfo";
  const std::string check = "/grpc.health.v1.Health/Check";

  const auto calls = stall(info);
  Await([&] { return Reason(ask(info)) == "TOO_MANY_CALLS"; });
  EXPECT_TRUE(ask(check).ok());

  // Calls that stall probes have their places for two seconds. Then later ones may have them.
  const auto probes = stall(check);
  Await([&] { return Reason(ask(check)) == "TOO_MANY_CALLS"; });
  std::atomic<bool> over = false;
  std::thread time([&] {
    for (; !over; std::this_thread::sleep_for(std::chrono::milliseconds(10))) AdvanceClock(3);
  });
  const auto is_idle = [](const auto& probe) { return Reason(probe->Finish()) == "IDLE"; };
  EXPECT_GE(std::count_if(probes.begin(), probes.end(), is_idle), kPlacesOfAHost);
  over = true;
  time.join();
  EXPECT_TRUE(ask(check).ok());
  for (const auto& call : calls) call->context().TryCancel();
}

TEST_F(RpcTest, APortIsTakenOnce) {
  const auto second = RpcServer::Start(service_, {.listen = server_->addresses(), .tls = std::nullopt});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kInvalidArgument);
  ExpectUnharmed();
}

}  // namespace
}  // namespace warpfold::server
