// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// When a shard's thread asks the device for a notice: not while it has something else to do, and not while it
// polls for the end by itself. Also how a shard ends while calls arrive.
#include "server/rpc/rpc_shard.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "client/connections/grpc_process.h"
#include "tests/server/drive_session.h"
#include "tests/server/fake_backend.h"
#include "tests/server/rpc/raw_call.h"

namespace warpfold::server {
namespace {

kernels::ReductionPlan SumOfInts() {
  kernels::ReductionSpec spec;
  spec.operators = {"sum"};
  spec.element_type = kernels::ElementType::kInt32;
  return kernels::ReductionPlan::Create(spec).value();
}

// Spins until `condition` holds; otherwise the test's own timeout ends it.
template <typename Condition>
void Await(Condition condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

class CallCounter : public CallObserver {
 public:
  void OnBegin(const std::shared_ptr<const LiveCall>&) override { ++begun; }
  void OnEnd(const std::shared_ptr<const LiveCall>&, const CallRecord&) override { ++ended; }
  std::atomic<int> begun = 0;
  std::atomic<int> ended = 0;
};

class RpcShardTest : public testing::Test {
 protected:
  RpcShardTest() {
    grpc::ServerBuilder builder;
    builder.RegisterAsyncGenericService(&methods_);
    auto queue = builder.AddCompletionQueue();
    grpc_ = builder.BuildAndStart();
    shard_ = std::make_unique<RpcShard>(service_, methods_, SlotsOf(backend_), std::move(queue));
    backend_.behaviour.SetBlocked(true);
    shard_->Start();
  }
  ~RpcShardTest() override {
    shard_->PostAndWait([this] { shard_->StopAccepting(); });
    grpc_->Shutdown();
    shard_->Join();
  }

  // On the shard's thread: starts a slot whose end the holder awaits.
  void StartAwaited(absl::Duration poll) {
    SlotPool& slots = shard_->core().slots();
    kernels::Slot* const slot = slots.Take(holder_);
    ASSERT_NE(slot, nullptr);
    ASSERT_TRUE(slots.Started(holder_, slot, slot->Start(SumOfInts(), 0, 1024), {.poll = poll}).ok());
    slots.AwaitFinish(holder_);
  }

  // `left` events, each of which posts the next one.
  void PostChain(int left, const std::function<void()>& event) {
    shard_->Post([this, left, event] {
      event();
      if (left > 1) PostChain(left - 1, event);
    });
  }

  FakeBackend backend_;
  Service service_{backend_, Limits{.call = {.idle = absl::Milliseconds(100)}}, absl::Now};
  grpc::AsyncGenericService methods_;
  std::unique_ptr<grpc::Server> grpc_;
  std::unique_ptr<RpcShard> shard_;
  CountingHolder holder_;
};

TEST_F(RpcShardTest, AsksForANoticeOnlyWhenThereIsNoOtherEvent) {
  std::atomic<int> events = 0;
  int notices = 0;  // those requested by the time of the last event
  shard_->Post([&] {
    StartAwaited(absl::ZeroDuration());
    PostChain(10, [&] {
      notices = backend_.behaviour.notices;
      ++events;
    });
  });
  Await([&] { return events == 10; });
  Await([&] { return backend_.behaviour.notices == 1; });
  EXPECT_EQ(notices, 0);
  backend_.behaviour.FinishAll();
  shard_->PostAndWait([&] { EXPECT_EQ(holder_.finished.size(), 1u) << "the notice came before this event"; });
}

TEST_F(RpcShardTest, LooksForTheEndInsteadOfANotice) {
  shard_->PostAndWait([&] { StartAwaited(absl::Hours(1)); });
  std::thread device([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    backend_.behaviour.FinishAll();
  });
  std::size_t finished = 0;
  Await([&] {
    shard_->PostAndWait([&] { finished = holder_.finished.size(); });
    return finished == 1;
  });
  EXPECT_EQ(backend_.behaviour.notices, 0);
  device.join();
}

TEST_F(RpcShardTest, LooksAtTheClockAlsoWhileThereAreEventsForEver) {
  CallCounter counter;
  shard_->PostAndWait([&] { service_.observer = &counter; });
  RawCall silent(grpc_->InProcessChannel({}), "/warpfold.v1.ReductionService/Reduce");
  Await([&] { return counter.begun == 1; });
  // Fewer than those after which the shard works whatever comes.
  constexpr int kEvents = 250;
  int events = 0;
  int events_before_end = 0;
  std::atomic<bool> over = false;
  shard_->Post([&] {
    PostChain(kEvents, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (counter.ended == 0) ++events_before_end;
      over = ++events == kEvents;
    });
  });
  Await([&] { return over.load(); });
  EXPECT_LT(events_before_end, kEvents);
}

// Callers without a pause, until a call fails.
class Callers {
 public:
  explicit Callers(const std::shared_ptr<grpc::Channel>& channel) {
    for (std::thread& thread : threads_) {
      thread = std::thread([channel] {
        while (true) {
          RawCall call(channel, "/warpfold.v1.ReductionService/GetServerInfo");
          call.Write("");
          call.WritesDone();
          if (!call.Finish().ok()) return;
        }
      });
    }
  }
  ~Callers() {
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::array<std::thread, 2 * RpcShard::kCallsAsked> threads_;
};

// A call that arrives asks gRPC for the next one, but not from a queue that is about to be shut down: gRPC
// would then end the process, or write to memory that is gone.
TEST(RpcShardEndTest, AsksForNoMoreCallsAtTheEnd) {
  ASSERT_TRUE(KeepGrpcRunning().ok());  // from one round to the next
  LookUpCpuFrequency();                 // several threads connect at once
  for (int round = 0; round < 50; ++round) {
    FakeBackend backend;
    Service service(backend, Limits{}, absl::Now);
    CallCounter counter;
    service.observer = &counter;
    grpc::AsyncGenericService methods;
    grpc::ServerBuilder builder;
    builder.RegisterAsyncGenericService(&methods);
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    auto queue = builder.AddCompletionQueue();
    const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    RpcShard shard(service, methods, SlotsOf(backend), std::move(queue));
    shard.Start();
    const Callers callers(
        grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
    Await([&] { return counter.begun > 100; });
    int before = 0;
    shard.PostAndWait([&] {
      before = counter.begun;
      shard.StopAccepting();
    });
    // Calls that had been asked for still come.
    Await([&] { return counter.begun >= before + RpcShard::kCallsAsked; });
    server->Shutdown(std::chrono::system_clock::now());
    bool is_busy = true;
    while (is_busy) shard.PostAndWait([&] { is_busy = shard.core().is_busy(); });
    shard.Join();
    EXPECT_EQ(counter.begun, before + RpcShard::kCallsAsked);
  }
}

}  // namespace
}  // namespace warpfold::server
