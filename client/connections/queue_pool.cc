// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/connections/queue_pool.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/time/clock.h"
#include "proto/shared/steady_time.h"

namespace warpfold {
namespace {

// Of a connection. Each may hold a descriptor.
constexpr std::size_t kMaxIdle = 16;

// Each wait that fails writes two lines to gRPC's log, so that the next one is tried only after a pause.
constexpr absl::Duration kPauseAfterFailure = absl::Milliseconds(20);

void End(grpc::CompletionQueue& queue) {
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) continue;
}

}  // namespace

Waited AwaitEvent(grpc::CompletionQueue& queue, void** tag, bool* ok, absl::Time end) {
  if (queue.AsyncNext(tag, ok, ToSystemTime(end)) == grpc::CompletionQueue::GOT_EVENT) return Waited::kEvent;
  const absl::Time now = SteadyNow();
  if (now >= end) return Waited::kTimeout;
  absl::SleepFor(std::min(kPauseAfterFailure, end - now));
  return Waited::kFailed;
}

QueuePool::~QueuePool() {
  for (const auto& queue : idle_) End(*queue);
}

std::unique_ptr<grpc::CompletionQueue> QueuePool::Take() {
  {
    absl::MutexLock lock(&mutex_);
    if (!idle_.empty()) {
      auto queue = std::move(idle_.back());
      idle_.pop_back();
      return queue;
    }
  }
  return std::make_unique<grpc::CompletionQueue>();
}

void QueuePool::GiveBack(std::unique_ptr<grpc::CompletionQueue> queue) {
  {
    absl::MutexLock lock(&mutex_);
    if (idle_.size() < kMaxIdle) return idle_.push_back(std::move(queue));
  }
  End(*queue);
}

std::size_t QueuePool::idle() const {
  absl::MutexLock lock(&mutex_);
  return idle_.size();
}

}  // namespace warpfold
