// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/log/log_line.h"

#include <gtest/gtest.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"
#include "server/log/call_log.h"
#include "server/log/logging.h"

namespace warpfold::server {
namespace {

using Texts = std::vector<std::string>;

nlohmann::json Parsed(const LogFields& fields) {
  return nlohmann::json::parse("{" + JsonMembers(fields) + "}");
}

TEST(LogLineTest, JsonHasTheTypesOfTheFields) {
  const nlohmann::json line = Parsed({{"method", "Reduce"},
                                      {"bytes", std::uint64_t{18446744073709551615u}},
                                      {"duration_ms", 0.25},
                                      {"operators", Texts{"sum", "max"}}});
  EXPECT_EQ(line["method"], "Reduce");
  EXPECT_EQ(line["bytes"].get<std::uint64_t>(), 18446744073709551615u);
  EXPECT_EQ(line["duration_ms"].get<double>(), 0.25);
  EXPECT_EQ(line["operators"], (Texts{"sum", "max"}));
}

TEST(LogLineTest, AnyTextOfAClientIsOneJsonString) {
  const std::string hostile = "a\"},{\n\r\x01\x7f\\ \xff\xc3\xa9";
  const std::string members = JsonMembers({{"identity", hostile}});
  EXPECT_EQ(members.find('\n'), std::string::npos);
  for (const char c : members) EXPECT_LT(static_cast<unsigned char>(c), 0x80);
  EXPECT_EQ(Parsed({{"identity", hostile}})["identity"], "a\"},{\n\r\x01\x7f\\ \xef\xbf\xbd\xc3\xa9");
}

TEST(LogLineTest, PlainTextIsForPeople) {
  EXPECT_EQ(PlainText({{"method", "Reduce"},
                       {"status", "OUT_OF_RANGE"},
                       {"bytes", std::uint64_t{8}},
                       {"request_id", "my request"},
                       {"operators", Texts{"sum", "max"}},
                       {"message", "the sum does not fit"}}),
            "Reduce OUT_OF_RANGE bytes=8 request_id=\"my request\" operators=sum,max: the sum does not fit");
}

TEST(LogLineTest, PlainTextStaysInItsLineAndItsField) {
  const std::string text = PlainText({{"identity", "x\" bytes=7\n"}, {"message", "two\nlines"}});
  EXPECT_EQ(text, "identity=\"x\\\" bytes=7\\n\": two\\nlines");
  EXPECT_EQ(PlainText({{"identity", "\\n"}}), "identity=\"\\\\n\"");
  EXPECT_EQ(PlainText({{"message", "the peer's \"x\"\x1b\\"}}), "the peer's \"x\"\\x1b\\\\");
  EXPECT_EQ(PlainText({{"message", "alone"}}), "alone");
}

// This bounds what waits for a reader.
TEST(CallLogTest, CountsTheTextsThatClientsChoose) {
  CallRecord call;
  const std::size_t least = BytesInQueue(call);
  EXPECT_GE(least, sizeof(CallRecord));
  const auto grows_by = [&](std::size_t bytes) {
    const bool grows = BytesInQueue(call) >= least + bytes;
    call = {};
    return grows;
  };
  call.identity = std::string(2048, 'i');
  EXPECT_TRUE(grows_by(2048));
  call.request_id = std::string(128, 'r');
  EXPECT_TRUE(grows_by(128));
  call.status = absl::InternalError(std::string(500, 'm'));
  EXPECT_TRUE(grows_by(500));
  call.trace.emplace().state = std::string(512, 't');
  EXPECT_TRUE(grows_by(512));
  kernels::ReductionSpec spec;
  spec.operators = {"sum", "sum_of_squares", "max", "min", "argmax", "argmin", "mean", "variance"};
  call.reduction = kernels::ReductionPlan::Create(spec).value();
  EXPECT_TRUE(grows_by(8 * sizeof(std::string) + sizeof("sum_of_squares")));
}

// Adds `count` calls to the log of a server that writes one line per call, and returns what it wrote.
std::string LogOf(const CallRecord& call, int count) {
  static const bool is_set_up = [] {
    SetUpLogging(LogFormat::kText, LogLevel::kInfo);
    return true;
  }();
  EXPECT_TRUE(is_set_up);
  testing::internal::CaptureStderr();
  absl::Time now = absl::UnixEpoch();
  CallLog log([&now] { return now; });
  for (int i = 0; i < count; ++i) log.Add(call);
  now += absl::Seconds(2);
  log.SayLeftOut();
  FlushLog();
  return testing::internal::GetCapturedStderr();
}

std::ptrdiff_t WordsIn(const std::string& log, const char* words) {
  const std::vector<std::string> parts = absl::StrSplit(log, words);
  return std::ssize(parts) - 1;
}

// An operator who reads only warnings misses no failure of the server, and sees none of a caller.
TEST(CallLogTest, FailuresOfTheServerAreWarningsAlsoIfMostAreOnlyCounted) {
  CallRecord call;
  call.method = "Reduce";
  for (const absl::Status& fault :
       {absl::InternalError("x"), absl::UnknownError("x"),
        kernels::Error(absl::StatusCode::kUnavailable, reason::kDeviceLost, "x"),
        kernels::Error(absl::StatusCode::kInternal, reason::kLaunchRefused, "x")}) {
    call.status = fault;
    const std::string log = LogOf(call, 30);
    EXPECT_EQ(WordsIn(log, " warning "), 11) << log;
    EXPECT_EQ(WordsIn(log, "20 more calls ended with"), 1) << log;
  }
  call.status = kernels::Error(absl::StatusCode::kInvalidArgument, reason::kBadHeader, "x");
  const std::string log = LogOf(call, 30);
  EXPECT_EQ(WordsIn(log, " info "), 11) << log;
  EXPECT_EQ(WordsIn(log, " warning "), 0) << log;
}

TEST(CallLogTest, ProbesThatFindEverythingInOrderHaveNoLine) {
  CallRecord call;
  call.method = "Check";
  EXPECT_EQ(LogOf(call, 1), "");
  call.method = "Watch";
  call.status = absl::CancelledError("the client left");
  EXPECT_EQ(LogOf(call, 1), "");
  call.status = absl::ResourceExhaustedError("too many");
  EXPECT_EQ(WordsIn(LogOf(call, 1), " info "), 1);
}

}  // namespace
}  // namespace warpfold::server
