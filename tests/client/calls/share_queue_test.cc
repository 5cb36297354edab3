// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/share_queue.h"

#include <gtest/gtest.h>

#include <thread>

namespace warpfold {
namespace {

v1::PartialState StateAt(std::uint64_t first_element) {
  v1::PartialState state;
  state.set_first_element(first_element);
  return state;
}

TEST(ShareQueueTest, GivesSharesInOrderAndStatesInOrder) {
  ShareQueue queue(3, 2);
  EXPECT_EQ(queue.Take(), 0u);
  EXPECT_EQ(queue.Take(), 1u);
  queue.Done(1, StateAt(1));
  EXPECT_EQ(queue.Take(), 2u);
  queue.Done(2, StateAt(2));
  queue.Done(0, StateAt(0));
  EXPECT_EQ(queue.Take(), std::nullopt);
  const auto states = queue.States();
  ASSERT_TRUE(states.ok());
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ((*states)[i].first_element(), i);
}

TEST(ShareQueueTest, AWorkerWithoutAShareWaitsForOneThatIsPutBack) {
  ShareQueue queue(1, 2);
  EXPECT_EQ(queue.Take(), 0u);
  std::jthread other([&] {
    EXPECT_EQ(queue.Take(), 0u);
    queue.Done(0, StateAt(0));
  });
  queue.PutBack(0);
  queue.Leave(absl::UnavailableError("gone"));
  other.join();
  EXPECT_TRUE(queue.States().ok());
}

TEST(ShareQueueTest, AWorkerThatLooksAheadDoesNotWait) {
  ShareQueue queue(2, 2);
  EXPECT_EQ(queue.Take(), 0u);
  EXPECT_EQ(queue.TakeAhead(), 1u);
  EXPECT_EQ(queue.TakeAhead(), std::nullopt);
  queue.PutBack(1);
  EXPECT_EQ(queue.TakeAhead(), 1u);
  queue.PutBack(1);
  queue.EndLookAhead();
  EXPECT_EQ(queue.TakeAhead(), std::nullopt);
  EXPECT_EQ(queue.Take(), 1u);
}

TEST(ShareQueueTest, OneShareThatIsDoneIsWorkThatCanBeLost) {
  ShareQueue queue(2, 1);
  EXPECT_EQ(queue.Take(), 0u);
  EXPECT_FALSE(queue.any_done());
  queue.Done(0, StateAt(0));
  EXPECT_TRUE(queue.any_done());
}

TEST(ShareQueueTest, TheLastWorkerThatLeavesEndsTheArray) {
  ShareQueue queue(2, 2);
  queue.Leave(absl::UnavailableError("first"));
  EXPECT_FALSE(queue.finished());
  queue.Leave(absl::UnavailableError("last"));
  EXPECT_TRUE(queue.finished());
  EXPECT_EQ(queue.States().status().message(), "last");
}

TEST(ShareQueueTest, TheFailureIsTheOneThatWasNoCancellation) {
  ShareQueue queue(4, 4);
  queue.Fail(absl::CancelledError());
  queue.Fail(absl::DataLossError("the first"));
  queue.Fail(absl::InternalError("the second"));
  EXPECT_EQ(queue.Take(), std::nullopt);
  EXPECT_EQ(queue.States().status().message(), "the first");
}

}  // namespace
}  // namespace warpfold
