// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A caller's trace, from the client library to what the server logs and returns.
#include <gmock/gmock.h>
#include <grpcpp/version_info.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <numeric>
#include <set>

#include "client/client.h"
#include "server/log/logging.h"
#include "tests/server/rpc/raw_call.h"
#include "tests/server/rpc/rpc_fixture.h"

namespace warpfold::server {
namespace {

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kParent[] = "00f067aa0ba902b7";
constexpr char kTraceparent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
constexpr char kTracestate[] = "rojo=00f067aa0ba902b7, congo=t61rcWkgMzE";

class TraceTest : public RpcTest, public CallObserver {
 protected:
  TraceTest() { service_.observer = this; }
  ~TraceTest() override { server_.reset(); }

  void OnBegin(const std::shared_ptr<const LiveCall>& call) override {
    const std::lock_guard lock(mutex_);
    begun_.push_back(call->trace.has_value() ? call->trace->span_id : "");
  }
  void OnEnd(const std::shared_ptr<const LiveCall>&, const CallRecord& record) override {
    const std::lock_guard lock(mutex_);
    records_.push_back(record);
  }
  std::vector<CallRecord> Records() {
    const std::lock_guard lock(mutex_);
    return records_;
  }

  std::mutex mutex_;
  std::vector<CallRecord> records_;  // guarded by mutex_
  std::vector<std::string> begun_;   // guarded likewise; the spans of calls
};

TEST_F(TraceTest, EveryCallOfARequestCarriesIt) {
  Client client(server_->addresses()[0]);
  std::vector<std::int32_t> values(1 << 20);
  std::iota(values.begin(), values.end(), 0);
  const CallOptions options = {.traceparent = kTraceparent, .tracestate = kTracestate, .streams = 2};
  ASSERT_TRUE(client.Reduce(kSum, values, options).ok());
  ASSERT_TRUE(client.GetServerInfo(options).ok());
  ASSERT_TRUE(client.IsServing(options).ok());
  Await([&] { return Records().size() >= 5; });
  std::map<std::string, int> methods;
  std::set<std::string> spans;
  for (const CallRecord& record : Records()) {
    ASSERT_TRUE(record.trace.has_value()) << record.method;
    EXPECT_EQ(record.trace->trace_id, kTrace);
    EXPECT_EQ(record.trace->parent_span_id, kParent);
    EXPECT_EQ(record.trace->state, kTracestate);
    spans.insert(record.trace->span_id);
    ++methods[record.method];
  }
  EXPECT_EQ(spans.size(), Records().size());
  // A call that is in progress has its span already.
  EXPECT_THAT(begun_, testing::UnorderedElementsAreArray(spans));
  EXPECT_GE(methods["Reduce"], 2);
  EXPECT_EQ(methods["Merge"], 1);
  EXPECT_EQ(methods["Check"], 1);
}

TEST_F(TraceTest, AnOptionThatIsNoTraceIsNotSent) {
  Client client(server_->addresses()[0]);
  for (const char* text : {"", "x\n", "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"}) {
    EXPECT_TRUE(client.Reduce(kSum, std::vector<std::int32_t>{1, 2}, {.traceparent = text}).ok());
  }
  Await([&] { return Records().size() == 3; });
  for (const CallRecord& record : Records()) EXPECT_FALSE(record.trace.has_value());
}

TEST_F(TraceTest, AStateThatMayNotBeIsNotSent) {
  Client client(server_->addresses()[0]);
  const std::vector<std::int32_t> values = {1, 2};
  for (const std::string& state : {std::string("a=1\nb=2"), std::string(513, 'x'), std::string("a=\x80")}) {
    EXPECT_TRUE(client.Reduce(kSum, values, {.traceparent = kTraceparent, .tracestate = state}).ok());
  }
  // Nor is a state that belongs to no trace.
  EXPECT_TRUE(client.Reduce(kSum, values, {.tracestate = kTracestate}).ok());
  Await([&] { return Records().size() == 4; });
  EXPECT_FALSE(Records().back().trace.has_value());
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(Records()[i].trace->state, "");
}

// Of other clients; the trace itself stays.
TEST_F(TraceTest, AStateThatIsTooLongIsLeftOut) {
  RawCall call(channel_, "/warpfold.v1.ReductionService/GetServerInfo",
               {{"traceparent", kTraceparent}, {"tracestate", std::string(513, 'x')}});
  call.Write("");
  call.WritesDone();
  EXPECT_TRUE(call.Finish().ok());
  Await([&] { return Records().size() == 1; });
  EXPECT_EQ(Records()[0].trace->trace_id, kTrace);
  EXPECT_EQ(Records()[0].trace->state, "");
}

// According to the standard, a parent that comes twice counts as none, and the headers of a state as one
// list.
TEST_F(TraceTest, HeadersThatComeTwice) {
  RawCall parents(channel_, "/warpfold.v1.ReductionService/GetServerInfo",
                  {{"traceparent", kTraceparent}, {"traceparent", kTraceparent}});
  RawCall states(channel_, "/warpfold.v1.ReductionService/GetServerInfo",
                 {{"traceparent", kTraceparent}, {"tracestate", "a=1"}, {"tracestate", "b=2"}});
  for (RawCall* call : {&parents, &states}) {
    call->Write("");
    call->WritesDone();
    EXPECT_TRUE(call->Finish().ok());
  }
  Await([&] { return Records().size() == 2; });
  std::set<std::string> states_seen;
  for (const CallRecord& record : Records())
    states_seen.insert(record.trace.has_value() ? record.trace->state : "no trace");
  // gRPC 1.83 passes on one parent of two.
  const char* const of_two = GRPC_CPP_VERSION_MINOR >= 66 ? "" : "no trace";
  EXPECT_THAT(states_seen, testing::UnorderedElementsAre("a=1,b=2", of_two));
}

TEST_F(TraceTest, TheAnswerNamesTheSpanOfTheCall) {
  for (const char* method : {"/warpfold.v1.ReductionService/GetServerInfo", "/no/Such"}) {
    RawCall call(channel_, method, {{"traceparent", kTraceparent}});
    call.Write("");
    call.WritesDone();
    call.Finish();
    const auto& trailers = call.context().GetServerTrailingMetadata();
    const auto found = trailers.find("traceresponse");
    ASSERT_NE(found, trailers.end()) << method;
    const std::string answer(found->second.data(), found->second.size());
    EXPECT_THAT(answer, testing::MatchesRegex(absl::StrCat("00-", kTrace, "-[0-9a-f]{16}-01")));
    EXPECT_THAT(answer, testing::Not(testing::HasSubstr(kParent)));
  }
  RawCall untraced(channel_, "/warpfold.v1.ReductionService/GetServerInfo");
  untraced.Write("");
  untraced.WritesDone();
  EXPECT_TRUE(untraced.Finish().ok());
  EXPECT_EQ(untraced.context().GetServerTrailingMetadata().count("traceresponse"), 0u);
}

TEST_F(TraceTest, TheLogHasTheIds) {
  SetUpLogging(LogFormat::kText, LogLevel::kInfo);
  testing::internal::CaptureStderr();
  service_.observer = &call_log_;
  Client client(server_->addresses()[0]);
  ASSERT_TRUE(client.GetServerInfo({.traceparent = kTraceparent}).ok());
  ASSERT_TRUE(client
                  .Reduce(kSum, std::vector<std::int32_t>{1, 2},
                          {.traceparent = kTraceparent, .tracestate = kTracestate})
                  .ok());
  server_.reset();
  FlushLog();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::ContainsRegex(absl::StrCat("trace_id=", kTrace, " parent_span_id=", kParent,
                                                  " span_id=[0-9a-f]+ tracestate=\"rojo=00f067aa0ba902b7, "
                                                  "congo=t61rcWkgMzE\" operators=sum type=int32 ")));
}

}  // namespace
}  // namespace warpfold::server
