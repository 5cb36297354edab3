// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Callbacks that throw, on one stream and on several, and callbacks that are empty.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <stdexcept>
#include <vector>

#include "absl/time/clock.h"
#include "client/client.h"
#include "client/error.h"
#include "tests/client/fake_service.h"

namespace warpfold {
namespace {

const Spec kSumSpec = {.operators = {"sum"}};
constexpr std::uint64_t kLargeBytes = 64 << 20;

bool Throw() { throw std::runtime_error("a callback's"); }

grpc::Status HangUntilCancelled(const SeenCall&, grpc::ServerContext& context) {
  while (!context.IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
  return grpc::Status::CANCELLED;
}

class CallbacksTest : public testing::TestWithParam<int> {
 protected:
  void ExpectUsable() {
    const auto sum = client_.Reduce(kSum, std::vector<std::int32_t>{1, 2, 3});
    EXPECT_TRUE(sum.ok() && *sum == 6) << sum.status();
  }

  std::atomic<bool> sent_ = false;  // written by the service until the server has ended
  FakeService service_;
  FakeServer server_{service_};
  Client client_{server_.target(), {.connections = 4}};
  const std::vector<std::int32_t> large_ = std::vector<std::int32_t>(kLargeBytes / 4, 1);
};
INSTANTIATE_TEST_SUITE_P(Streams, CallbacksTest, testing::Values(1, 3));

TEST_P(CallbacksTest, WhatAGeneratorThrowsComesOut) {
  const Generator generator = [](std::uint64_t offset, std::span<std::byte>) {
    if (offset != 0) Throw();
  };
  const auto reduce = [&] {
    return client_.ReduceGenerated(kSumSpec, ElementType::kInt32, kLargeBytes, generator,
                                   {.streams = GetParam()});
  };
  EXPECT_THROW(reduce().status().IgnoreError(), std::runtime_error);
  ExpectUsable();
}

TEST_F(CallbacksTest, WhatAGeneratorOfAnArrayToKeepThrowsComesOut) {
  const Generator generator = [](std::uint64_t offset, std::span<std::byte>) {
    if (offset != 0) Throw();
  };
  const auto put = [&] {
    return client_.PutGenerated(ElementType::kInt32, std::nullopt, kLargeBytes, generator).status();
  };
  EXPECT_THROW(put().IgnoreError(), std::runtime_error);
  ExpectUsable();
}

TEST_P(CallbacksTest, WhatOnSentThrowsComesOut) {
  const CallOptions options = {.streams = GetParam(), .on_sent = [](std::uint64_t) { Throw(); }};
  EXPECT_THROW(client_.Reduce(kSumSpec, large_, options).status().IgnoreError(), std::runtime_error);
  ExpectUsable();
}

// The call can only end by its cancellation. keep_going throws while the response is awaited.
TEST_P(CallbacksTest, WhatKeepGoingThrowsCancelsAtOnce) {
  service_.on_commit = [this](const SeenCall& call, grpc::ServerContext& context) {
    sent_ = true;
    return HangUntilCancelled(call, context);
  };
  const CallOptions options = {.timeout = absl::InfiniteDuration(),
                               .keep_going = [this] { return !sent_ || Throw(); },
                               .streams = GetParam()};
  EXPECT_THROW(client_.Reduce(kSumSpec, large_, options).status().IgnoreError(), std::runtime_error);
  ExpectUsable();
}

TEST_F(CallbacksTest, AWriterIsOverWhenKeepGoingHasThrown) {
  service_.on_commit = HangUntilCancelled;
  bool is_open = false;  // on a busy machine, opening asks, too
  auto writer = client_.OpenWriter(
      kSumSpec, ElementType::kInt32,
      {.timeout = absl::InfiniteDuration(), .keep_going = [&] { return is_open ? Throw() : true; }});
  ASSERT_TRUE(writer.ok()) << writer.status();
  is_open = true;
  EXPECT_THROW(writer->Commit().status().IgnoreError(), std::runtime_error);
  EXPECT_TRUE(absl::IsCancelled(writer->Commit().status()));
}

TEST_F(CallbacksTest, AWriterIsOverWhenKeepGoingHasThrownOutOfAwaitEnd) {
  bool is_open = false;  // on a busy machine, opening asks, too
  auto writer = client_.OpenWriter(
      kSumSpec, ElementType::kInt32,
      {.timeout = absl::InfiniteDuration(), .keep_going = [&] { return is_open ? Throw() : true; }});
  ASSERT_TRUE(writer.ok()) << writer.status();
  is_open = true;
  EXPECT_THROW(writer->AwaitEnd(absl::InfiniteDuration()), std::runtime_error);
  EXPECT_TRUE(absl::IsCancelled(writer->Write(std::vector<std::byte>(4))));
  EXPECT_TRUE(writer->AwaitEnd(absl::ZeroDuration()));
}

TEST_F(CallbacksTest, AWriterIsOverWhenOnSentHasThrown) {
  auto writer =
      client_.OpenWriter(kSumSpec, ElementType::kInt32, {.on_sent = [](std::uint64_t) { Throw(); }});
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_THROW(writer->Write(std::vector<std::byte>(2 << 20)).IgnoreError(), std::runtime_error);
  EXPECT_TRUE(absl::IsCancelled(writer->Write(std::vector<std::byte>(4))));
}

TEST_F(CallbacksTest, ADestructorAsksNothing) {
  int asked = 0;
  std::optional<Writer> writer = *client_.OpenWriter(kSumSpec, ElementType::kInt32, {.keep_going = [&] {
                                                       ++asked;
                                                       return true;
                                                     }});
  absl::SleepFor(absl::Milliseconds(100));  // after this the next wait would ask
  writer.reset();
  EXPECT_EQ(asked, 0);
}

TEST_F(CallbacksTest, EmptyOnesAreRefused) {
  const auto expect_refused = [](const absl::Status& status) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(GetErrorInfo(status).value_or(ErrorInfo{}).reason, "BAD_HEADER");
  };
  const auto visit = [](const SegmentResults&) {};
  const ElementType type = ElementType::kInt32;
  expect_refused(client_.ReduceGenerated(kSumSpec, type, kLargeBytes, nullptr, {.streams = 2}).status());
  expect_refused(client_.PutGenerated(type, std::nullopt, kLargeBytes, nullptr).status());
  expect_refused(
      client_.ReduceSegmentsGenerated(kSumSpec, type, kLargeBytes, nullptr, {.length = 1}, visit).status());
  expect_refused(
      client_.ReduceSegmentsOf(kSumSpec, type, std::as_bytes(std::span(large_)), {.length = 1}, nullptr)
          .status());
  const ArrayReference reference = {.token = "token", .byte_offset = 0, .element_count = 1};
  expect_refused(client_.ReduceSegmentsReference(kSumSpec, type, reference, {.length = 1}, nullptr).status());
}

}  // namespace
}  // namespace warpfold
