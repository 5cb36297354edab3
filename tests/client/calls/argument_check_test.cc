// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Arguments that the client itself rejects: nothing is sent.
#include "client/calls/argument_check.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/client.h"
#include "client/connections/status.h"
#include "client/error.h"
#include "tests/client/fake_service.h"

namespace warpfold {
namespace {

const std::vector<std::int32_t> kFour = {0, 1, 2, 3};

// The results of all calls that send an array, or ask about one. The visitors and generators do nothing.
std::vector<absl::Status> AnswersOf(Client& client, ElementType type, const CallOptions& options) {
  const auto bytes = std::as_bytes(std::span(kFour));
  const Spec spec{.operators = {"sum"}};
  const SegmentCut cut = {.length = 2};
  const SegmentVisitor ignore = [](const SegmentResults&) {};
  const Generator generate = [](std::uint64_t, std::span<std::byte>) {};
  const ArrayReference reference = {.token = "token", .element_count = 4};
  const std::vector<PartialState> states(1);
  return {
      client.ReduceBytes(spec, type, bytes, options).status(),
      client.ReduceGenerated(spec, type, 16, generate, options).status(),
      client.OpenWriter(spec, type, options).status(),
      client.ReduceReference(spec, type, reference, options).status(),
      client.ReduceSegmentsOf(spec, type, bytes, cut, ignore, options).status(),
      client.ReduceSegmentsGenerated(spec, type, 16, generate, cut, ignore, options).status(),
      client.ReduceSegmentsReference(spec, type, reference, cut, ignore, options).status(),
      client.ReducePart(spec, type, 0, std::span(&bytes, 1), options).status(),
      client.Merge(spec, type, states, options).status(),
      client.MergeToState(spec, type, states, options).status(),
      client.PutBytes(type, std::nullopt, bytes, {}, options).status(),
      client.PutGenerated(type, std::nullopt, 16, generate, {}, options).status(),
  };
}

// The same for calls that ask about a server.
std::vector<absl::Status> AnswersAboutServers(Client& client, const CallOptions& options) {
  return {client.GetServerInfo(options).status(), client.IsServing(options).status()};
}

// `field`: what the metadata name as wrong; empty if they need not.
void ExpectRefused(const std::vector<absl::Status>& answers, const std::string& reason,
                   const std::string& field = "") {
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_TRUE(absl::IsInvalidArgument(answers[i])) << "call " << i << ": " << answers[i];
    ErrorInfo info = GetErrorInfo(answers[i]).value_or(ErrorInfo{});
    EXPECT_EQ(info.reason, reason) << "call " << i;
    if (!field.empty()) {
      EXPECT_EQ(info.metadata["field"], field) << "call " << i;
    }
    // Rejected targets have no reason.
    EXPECT_EQ(IsRefusedCall(answers[i]), !reason.empty()) << "call " << i;
  }
}

class ArgumentCheckTest : public testing::Test {
 protected:
  FakeService service_;
  FakeServer server_{service_};
  Client client_{server_.target(), {.connections = 4}};
};

TEST_F(ArgumentCheckTest, RefusesWhatItCannotSay) {
  const std::vector<std::int32_t> values = {1, 2, 3};
  const auto reason = [&](const Spec& spec, const CallOptions& options) {
    const absl::StatusOr<Reduction> reduction = client_.Reduce(spec, values, options);
    return GetErrorInfo(reduction.status()).value_or(ErrorInfo{}).reason;
  };
  EXPECT_EQ(reason({.operators = {"summ"}}, {}), "UNKNOWN_OPERATOR");
  EXPECT_EQ(reason({.operators = {"unspecified"}}, {}), "UNKNOWN_OPERATOR");
  EXPECT_EQ(reason({.operators = {"sum"}, .matrix_shape = MatrixShape{2, 1}}, {}), "BAD_HEADER");
  EXPECT_EQ(reason({.operators = {"sum"}, .matrix_shape = MatrixShape{0, 1}}, {}), "BAD_HEADER");
  // 2^64 bytes, and a few less.
  EXPECT_EQ(reason({.operators = {"sum"}, .matrix_shape = MatrixShape{1u << 31, 1u << 31}}, {}),
            "BAD_HEADER");
  EXPECT_EQ(reason({.operators = {"sum"}, .matrix_shape = MatrixShape{~0u, ~0u}}, {}), "BAD_HEADER");
  const absl::Status writer =
      client_.OpenWriter({.operators = {"sum"}, .matrix_shape = MatrixShape{~0u, ~0u}}, ElementType::kInt32)
          .status();
  EXPECT_EQ(GetErrorInfo(writer).value_or(ErrorInfo{}).reason, "BAD_HEADER");
  EXPECT_EQ(reason({.operators = {"sum"}}, {.streams = 5}), "BAD_HEADER");
  EXPECT_EQ(reason({.operators = {"sum"}}, {.streams = -1}), "BAD_HEADER");
  EXPECT_EQ(service_.started(), 0);
}

TEST_F(ArgumentCheckTest, OptionsThatAreNoneAreRefusedByEveryCall) {
  for (const std::size_t chunk_bytes : {1ul, 2048ul, 100'000ul, 8ul << 20, ~std::size_t{0}}) {
    ExpectRefused(AnswersOf(client_, ElementType::kInt32, {.chunk_bytes = chunk_bytes}), "BAD_HEADER",
                  "chunk_bytes");
  }
  for (const int streams : {-1, 5}) {
    ExpectRefused(AnswersOf(client_, ElementType::kInt32, {.streams = streams}), "BAD_HEADER", "streams");
  }
  for (const std::string& id : {std::string(129, 'x'), std::string("two\nlines"), std::string("\xff")}) {
    ExpectRefused(AnswersOf(client_, ElementType::kInt32, {.request_id = id}), "BAD_HEADER", "request_id");
    ExpectRefused(AnswersAboutServers(client_, {.request_id = id}), "BAD_HEADER");
  }
  EXPECT_TRUE(client_.Reduce(kSum, kFour, {.request_id = std::string(128, '~')}).ok());
  EXPECT_EQ(service_.started(), 1);
}

TEST_F(ArgumentCheckTest, ATypeThatIsNoneIsRefusedByEveryCall) {
  for (const int number : {0, 100}) {
    ExpectRefused(AnswersOf(client_, static_cast<ElementType>(number), {}), "UNSUPPORTED_TYPE");
  }
  EXPECT_EQ(service_.started(), 0);
}

TEST_F(ArgumentCheckTest, NoArrayIsKeptForLessThanNoTime) {
  for (const absl::Duration time : {-absl::Nanoseconds(1), -absl::InfiniteDuration()}) {
    ExpectRefused({client_.Put(kFour, {.time_to_live = time}).status()}, "BAD_HEADER",
                  "time_to_live_seconds");
  }
}

TEST_F(ArgumentCheckTest, AnOwnerIsAShortTextOfAscii) {
  for (const std::string& owner :
       {std::string(129, 'x'), std::string("two\nlines"), std::string("x\xff"), std::string("\xc3\xa9")}) {
    const std::vector<absl::Status> answers = {client_.Put(kFour, {.owner = owner}).status(),
                                               client_.ListArrays(owner).status()};
    ExpectRefused(answers, "BAD_HEADER");
    for (const absl::Status& answer : answers) {
      EXPECT_EQ(answer.message(), "owner must be at most 128 printable ASCII characters");
    }
  }
  EXPECT_EQ(service_.started(), 0);
}

TEST_F(ArgumentCheckTest, WhatHasOneStreamOrOneServerIsRefusedMore) {
  ExpectRefused(
      {client_.Reduce({.operators = {"sum"}, .algorithm = "warp_shuffle"}, kFour, {.streams = 2}).status(),
       client_.OpenWriter({.operators = {"sum"}}, ElementType::kInt32, {.streams = 2}).status()},
      "BAD_HEADER");
  Client two({server_.target(), server_.target()}, {});
  ExpectRefused({two.Put(kFour).status()}, "BAD_HEADER");
  EXPECT_EQ(service_.started(), 0);
}

TEST_F(ArgumentCheckTest, TargetsThatAreNoneAreRefusedByEveryCall) {
  // gRPC would take the port modulo 65536, which is the server's.
  const std::string beyond = "127.0.0.1:" + std::to_string(server_.port() + 65'536);
  const std::vector<std::vector<std::string>> bad = {
      {}, {""}, {beyond}, {"127.0.0.1:0"}, {server_.target(), beyond}, {"ipv4:127.0.0.1:99999,127.0.0.1:1"}};
  for (const std::vector<std::string>& targets : bad) {
    Client client(targets);
    ExpectRefused(AnswersOf(client, ElementType::kInt32, {}), "");
    ExpectRefused(AnswersAboutServers(client, {}), "");
  }
  EXPECT_EQ(service_.started(), 0);
  // Two literals are two targets, not one string.
  EXPECT_TRUE(absl::IsInvalidArgument(Client({"127.0.0.1:1", "127.0.0.1:99999"}).DeleteArray("token")));
}

}  // namespace
}  // namespace warpfold
