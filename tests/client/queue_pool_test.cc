// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/queue_pool.h"

#include <gtest/gtest.h>

#include <vector>

#include "client/connection.h"
#include "client/raw_call.h"

namespace warpfold {
namespace {

using Queue = std::unique_ptr<grpc::CompletionQueue>;

TEST(QueuePoolTest, GivesAQueueAgain) {
  QueuePool pool;
  Queue queue = pool.Take();
  const grpc::CompletionQueue* const first = queue.get();
  pool.GiveBack(std::move(queue));
  EXPECT_EQ(pool.Take().get(), first);
}

TEST(QueuePoolTest, GivesNoQueueThatIsInUse) {
  QueuePool pool;
  const Queue one = pool.Take();
  const Queue other = pool.Take();
  EXPECT_NE(one, other);
}

TEST(QueuePoolTest, KeepsNoMoreThanAFew) {
  QueuePool pool;
  std::vector<Queue> taken;
  for (int i = 0; i < 100; ++i) taken.push_back(pool.Take());
  for (Queue& queue : taken) pool.GiveBack(std::move(queue));
  EXPECT_LT(pool.idle(), taken.size());
  EXPECT_GT(pool.idle(), 1U);
}

// The next call on the queue would take the events of the one before for its own.
TEST(QueuePoolTest, ACallGivesItsQueueBackEmpty) {
  const Connection connection("unix:/nobody-listens", {});
  for (const bool finishes : {false, true}) {
    CallScope scope(connection, absl::Now() + absl::Milliseconds(50), {});
    {
      RawCall call(scope, "/warpfold.v1.ReductionService/ReduceArray");
      call.Write({});
      grpc::ByteBuffer answer;
      if (finishes) {
        EXPECT_FALSE(call.Finish(&answer).ok());
      }
    }
    ASSERT_EQ(connection.queues().idle(), 1U);
    Queue queue = connection.queues().Take();
    void* tag = nullptr;
    bool ok = false;
    EXPECT_EQ(queue->AsyncNext(&tag, &ok, std::chrono::system_clock::now() + std::chrono::milliseconds(100)),
              grpc::CompletionQueue::TIMEOUT);
    connection.queues().GiveBack(std::move(queue));
  }
}

}  // namespace
}  // namespace warpfold
