// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// When a shard's thread asks the device for a notice: not while it has something else to do, and not while it
// looks for the end by itself.
#include "server/rpc/rpc_shard.h"

#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "tests/server/drive_session.h"
#include "tests/server/fake_backend.h"

namespace warpfold::server {
namespace {

kernels::ReductionPlan SumOfInts() {
  kernels::ReductionSpec spec;
  spec.operators = {"sum"};
  spec.element_type = kernels::ElementType::kInt32;
  return kernels::ReductionPlan::Create(spec).value();
}

// Spins until `condition` holds; the test's own timeout ends it otherwise.
template <typename Condition>
void Await(Condition condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

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
    shard_->StopAccepting();
    grpc_->Shutdown();
    shard_->Join();
  }

  // On the shard's thread: starts a slot, of which the holder awaits the end.
  void StartAwaited(absl::Duration look) {
    SlotShare& slots = shard_->core().slots();
    kernels::Slot* const slot = slots.Take(holder_);
    ASSERT_NE(slot, nullptr);
    ASSERT_TRUE(slots.Started(holder_, slot, slot->Start(SumOfInts(), 0, 1024), {.look = look}).ok());
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
  Service service_{backend_, Limits{}, absl::Now};
  grpc::AsyncGenericService methods_;
  std::unique_ptr<grpc::Server> grpc_;
  std::unique_ptr<RpcShard> shard_;
  CountingHolder holder_;
};

TEST_F(RpcShardTest, AsksForANoticeOnlyWhenThereIsNoOtherEvent) {
  std::atomic<int> events = 0;
  int notices = 0;  // that had been asked for when the last event came
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

}  // namespace
}  // namespace warpfold::server
