// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/rpc_shard.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "server/rpc/rpc_call.h"

namespace warpfold::server {
namespace {

// How soon an overdue call or a silent device is noticed.
constexpr auto kTick = std::chrono::milliseconds(50);

// A time that is long gone, and that gRPC can still count in nanoseconds.
constexpr std::chrono::system_clock::time_point kAtOnce = {};

// Messages wait for their turn until there is no other event, or this many have been handled: otherwise more
// events could come for ever. Ticks wait in the same way, but for kTick at most.
constexpr int kEventsBeforeWork = 256;

}  // namespace

RpcShard::RpcShard(Service& service, grpc::AsyncGenericService& methods,
                   const std::vector<kernels::Slot*>& slots,
                   std::unique_ptr<grpc::ServerCompletionQueue> queue)
    : methods_(methods), queue_(std::move(queue)), core_(service, slots) {
  for (kernels::Slot* slot : slots) {
    slot->NotifyBy([this, mailbox = mailbox_] {
      const std::lock_guard lock(mailbox->mutex);
      if (!mailbox->closed) PostLocked([this] { core_.OnDeviceFinished(); });
    });
  }
}

RpcShard::~RpcShard() {
  if (!joined_) Join();
}

void RpcShard::Start() {
  for (int i = 0; i < kCallsAsked; ++i) RpcCall::Request(*this);
  thread_ = std::thread([this] { Run(); });
}

void RpcShard::Post(std::function<void()> event) {
  const std::lock_guard lock(mailbox_->mutex);
  if (!mailbox_->closed) PostLocked(std::move(event));
}

void RpcShard::PostLocked(std::function<void()> event) {
  mailbox_->posted.push_back(std::move(event));
  if (std::exchange(mailbox_->alarm_set, true)) return;
  mailbox_->alarm.Set(queue_.get(), gpr_inf_past(GPR_CLOCK_REALTIME), static_cast<EventTag*>(this));
}

void RpcShard::PostAndWait(const std::function<void()>& event) {
  const auto done = std::make_shared<std::promise<void>>();  // the shard's thread may still be in set_value
  Post([&event, done] {
    event();
    done->set_value();
  });
  done->get_future().wait();
}

void RpcShard::OnEvent(bool) {
  std::vector<std::function<void()>> events;
  {
    const std::lock_guard lock(mailbox_->mutex);
    events.swap(mailbox_->posted);
    mailbox_->alarm_set = false;
  }
  for (const std::function<void()>& event : events) event();
}

void RpcShard::Run() {
  // Ticks are steady, whatever happens to the time of day, which gRPC uses for its deadlines.
  auto next_tick = Clock::now() + kTick;
  int events = 0;                    // since the shard last worked
  bool has_events = false;           // the queue had one when it was asked last
  absl::Time idle_at = core_.Now();  // when it last had none
  while (true) {
    void* tag = nullptr;
    bool ok = false;
    beat_.Beat();
    const bool has_work = core_.has_work();
    const bool polls = PollsOn(has_events);
    const bool is_due = Clock::now() >= next_tick;
    const bool waits = !polls && !has_work && !is_due;
    if (waits) core_.BeforeWaiting();
    switch (queue_->AsyncNext(&tag, &ok, waits ? DeadlineOf(next_tick) : kAtOnce)) {
      case grpc::CompletionQueue::SHUTDOWN:
        return;
      case grpc::CompletionQueue::GOT_EVENT:
        static_cast<EventTag*>(tag)->OnEvent(ok);
        core_.AfterEvent();
        has_events = true;
        ++events;
        break;
      case grpc::CompletionQueue::TIMEOUT:
        idle_at = core_.Now();
        core_.Work();
        // Between two polls other threads run: on a busy machine these may be the clients, and they may run
        // for long. Work that the device has finished meanwhile needs no notice.
        if (polls && !has_work && core_.PollTime().has_value()) {
          std::this_thread::yield();
          core_.OnDeviceFinished();
        }
        has_events = false;
        events = 0;
        break;
    }
    if (events >= kEventsBeforeWork) {
      core_.Work();
      events = 0;
    }
    if (is_due && (events == 0 || Clock::now() >= next_tick + kTick)) {
      core_.OnTick(idle_at);
      next_tick = Clock::now() + kTick;
    }
  }
}

// Whether to ask the queue without waiting, and to poll the device in between, instead of asking for its
// notice. While there are events the thread would not wait, so that a notice would only cost. And a result
// that is due soon is seen sooner by polling: until polls_until_, which counts from the first poll for any of
// the slots that are awaited, and not again for each.
bool RpcShard::PollsOn(bool has_events) {
  const std::optional<absl::Duration> poll = core_.PollTime();
  if (!poll.has_value()) {
    polls_until_ = Clock::time_point::min();
    return false;
  }
  const auto now = Clock::now();
  if (polls_until_ == Clock::time_point::min()) polls_until_ = now + absl::ToChronoNanoseconds(*poll);
  return has_events || now < polls_until_;
}

RpcShard::Deadline RpcShard::DeadlineOf(Clock::time_point next_tick) const {
  const absl::Duration rest = core_.LongestWait(absl::FromChrono(next_tick - Clock::now()));
  return Deadline::clock::now() + absl::ToChronoNanoseconds(std::min(rest, ThreadBeat::kLongestRest));
}

absl::Duration RpcShard::HeldUpFor(absl::Time now) {
  clockid_t clock = {};
  timespec computed = {};
  if (pthread_getcpuclockid(thread_.native_handle(), &clock) == 0) clock_gettime(clock, &computed);
  return beat_.RestsFor(now, absl::DurationFromTimespec(computed));
}

void RpcShard::Join() {
  joined_ = true;
  {
    const std::lock_guard lock(mailbox_->mutex);
    mailbox_->closed = true;
  }
  queue_->Shutdown();
  if (thread_.joinable()) return thread_.join();
  // It was never started, or there was no thread for it: operations that gRPC gives back are handled here.
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) static_cast<EventTag*>(tag)->OnEvent(ok);
}

}  // namespace warpfold::server
