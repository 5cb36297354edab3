// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A shard on gRPC: a completion queue, the thread that serves it, and the core's Shard, which only that
// thread touches. Events from elsewhere (a slot is finished, the server drains) are posted to the queue like
// any other.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/async_generic_service.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "server/core/calls/shard.h"
#include "server/core/thread_beat.h"

namespace warpfold::server {

// The tag that is given to gRPC with an operation. It comes back from the queue, on the shard's thread.
class EventTag {
 public:
  virtual ~EventTag() = default;
  virtual void OnEvent(bool ok) = 0;
};

class RpcShard : private EventTag {
 public:
  // Calls that gRPC may hand over before the shard has looked at the first of them.
  static constexpr int kCallsAsked = 16;

  // `service`, `methods` and the slots must outlive the shard.
  RpcShard(Service& service, grpc::AsyncGenericService& methods, const std::vector<kernels::Slot*>& slots,
           std::unique_ptr<grpc::ServerCompletionQueue> queue);
  // Calls Join, unless it has been called.
  ~RpcShard() override;

  // Accepts calls from now on, on its own thread. Throws std::system_error if there is no thread.
  void Start();

  // Runs `event` on the shard's thread, soon; after Join, never. From any thread.
  void Post(std::function<void()> event);
  // As Post, and waits until it has run. Not from the shard's thread, nor after Join.
  void PostAndWait(const std::function<void()>& event);

  // Accepts no more calls, and leaves the device alone. On the shard's thread.
  void StopAccepting() {
    accepting_ = false;
    core_.Retire();
  }

  // Ends the thread, if there is one. Call this once no call is left and the device is idle.
  void Join();
  bool has_thread() const { return thread_.joinable(); }

  // To be used on the shard's thread. There are two exceptions: tests read the slots' counts while nothing
  // happens, and the watchdog reads device_calls().
  Shard& core() { return core_; }
  // For how long the thread, which must have been started, has been held up. Only for the watchdog.
  absl::Duration HeldUpFor(absl::Time now);
  // From any thread.
  const ShardGauges& gauges() const { return core_.gauges(); }
  grpc::ServerCompletionQueue* queue() { return queue_.get(); }
  grpc::AsyncGenericService& methods() { return methods_; }
  bool accepting() const { return accepting_; }

 private:
  using Clock = std::chrono::steady_clock;
  using Deadline = std::chrono::system_clock::time_point;

  void Run();
  bool PollsOn(bool has_events);
  Deadline DeadlineOf(Clock::time_point next_tick) const;
  void OnEvent(bool ok) override;
  void PostLocked(std::function<void()> event);

  grpc::AsyncGenericService& methods_;
  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  Shard core_;
  bool accepting_ = true;
  bool joined_ = false;
  Clock::time_point polls_until_ = Clock::time_point::min();  // the thread's; min(): it does not poll
  std::thread thread_;
  ThreadBeat beat_;

  // What has been posted. It may outlive the shard, since a device's notice may come late.
  struct Mailbox {
    std::mutex mutex;
    std::vector<std::function<void()>> posted;  // guarded by mutex
    bool alarm_set = false;                     // guarded by mutex
    bool closed = false;                        // guarded by mutex; the shard must not be touched any more
    // Wakes the queue: an alarm whose time has come. It is set at most once at a time.
    grpc::Alarm alarm;
  };
  const std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
};

}  // namespace warpfold::server
