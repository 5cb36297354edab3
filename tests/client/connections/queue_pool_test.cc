// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/connections/queue_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <stdexcept>
#include <vector>

#include "client/calls/raw_call.h"
#include "client/connections/connection.h"
#include "client/tune_grpc.h"
#include "tests/client/full_listener.h"

namespace warpfold {
namespace {

using Queue = std::unique_ptr<grpc::CompletionQueue>;

// Before gRPC starts, which happens for the first queue.
[[maybe_unused]] const bool kTuned = TuneGrpc().ok();

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

// While an object of this class lives, the process can open nothing.
class AllDescriptorsTaken {
 public:
  AllDescriptorsTaken() {
    getrlimit(RLIMIT_NOFILE, &limit_);
    const rlimit none = {.rlim_cur = 3, .rlim_max = limit_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~AllDescriptorsTaken() { setrlimit(RLIMIT_NOFILE, &limit_); }

 private:
  rlimit limit_ = {};
};

void ExpectEmpty(const Connection& connection) {
  ASSERT_EQ(connection.queues().idle(), 1U);
  const Queue queue = connection.queues().Take();
  queue->Shutdown();
  void* tag = nullptr;
  bool ok = false;
  // An operation that has yet to end would make this wait for it, and then return its event.
  EXPECT_FALSE(queue->Next(&tag, &ok));
}

// Otherwise the next call on the queue would take what is left of this one for its own.
TEST(QueuePoolTest, ACallGivesItsQueueBackEmpty) {
  for (const int step : {0, 1, 2}) {
    SCOPED_TRACE(step);
    const Connection connection("unix:/nobody-listens", {});
    CallScope scope(connection, absl::Now() + absl::Milliseconds(50), {});
    {
      RawCall call(scope, "/warpfold.v1.ReductionService/ReduceArray");
      if (step > 0) call.Write({});
      grpc::ByteBuffer answer;
      if (step > 1) {
        EXPECT_FALSE(call.Finish(&answer).ok());
      }
    }
    ExpectEmpty(connection);
  }
}

TEST(QueuePoolTest, ACallThatAsksForItsAdmissionGivesItsQueueBackEmpty) {
  const Connection connection("unix:/nobody-listens", {});
  connection.target_load().Refused(absl::Now());
  CallScope scope(connection, absl::Now() + absl::Milliseconds(50), {});
  {
    RawCall call(scope, "/warpfold.v1.ReductionService/Reduce", nullptr, RawCall::Load::kArray);
    call.Write({});
    EXPECT_FALSE(call.AwaitAdmission());
  }
  ExpectEmpty(connection);
}

TEST(QueuePoolTest, ACallGivesItsQueueBackEmptyIfKeepGoingThrows) {
  const FullListener nobody_answers;
  const Connection connection(nobody_answers.target(), {});
  const Interrupts interrupts = {.keep_going = []() -> bool { throw std::runtime_error("no more"); }};
  CallScope scope(connection, absl::Now() + absl::Seconds(10), interrupts);
  {
    RawCall call(scope, "/warpfold.v1.ReductionService/ReduceArray");
    call.Write({});
    grpc::ByteBuffer answer;
    EXPECT_THROW(call.Finish(&answer).IgnoreError(), std::runtime_error);
  }
  ExpectEmpty(connection);
}

// With the strategy `poll`, which this process uses, each queue waits with its own descriptor. gRPC aborts if
// an event comes to a queue that is gone; e2e_client_process tests what callers are told.
TEST(QueuePoolTest, WhereNoDescriptorIsLeftCallsEndAndTheirQueuesAreEmpty) {
  const FullListener nobody_answers;
  const Connection connection(nobody_answers.target(), {});
  const AllDescriptorsTaken none_left;
  EXPECT_TRUE(connection.PauseAndConnect(absl::Milliseconds(100), Connection::PauseEnds::kInTime,
                                         absl::InfiniteFuture(), {}));
  CallScope scope(connection, absl::Now() + absl::Seconds(1), {});
  {
    RawCall call(scope, "/warpfold.v1.ReductionService/ReduceArray");
    call.WriteLast({});
    grpc::ByteBuffer answer;
    EXPECT_FALSE(call.Finish(&answer).ok());
  }
  ExpectEmpty(connection);
}

}  // namespace
}  // namespace warpfold
