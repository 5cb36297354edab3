// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Completion queues between calls: a new one costs a small call some microseconds, since gRPC's strategy
// `poll` makes a descriptor to wake it with, and closes that with the queue (docs/adr/0123). Internal.
#pragma once

#include <grpcpp/completion_queue.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace warpfold {

enum class Waited { kEvent, kTimeout, kFailed };

// The queue's next event, if it comes before `end`. The queue must not have been shut down. kFailed if gRPC
// cannot wait and says so in its log: with `poll` a queue's first wait makes a descriptor, and the process
// may have none left. It has then paused for a moment, and may be called again.
Waited AwaitEvent(grpc::CompletionQueue& queue, void** tag, bool* ok, absl::Time end);

// The queues of one connection's calls: with `poll` a queue watches every socket that it has ever had a call
// on. Threads: may be used from any thread. Destroyed after its calls.
class QueuePool {
 public:
  QueuePool() = default;
  ~QueuePool();
  QueuePool(const QueuePool&) = delete;
  QueuePool& operator=(const QueuePool&) = delete;

  // A queue for one call at a time, without events.
  std::unique_ptr<grpc::CompletionQueue> Take();

  // The caller has taken the event of every operation that was begun on `queue`: otherwise the next call
  // would take it for its own.
  void GiveBack(std::unique_ptr<grpc::CompletionQueue> queue);

  // Queues that wait for a call.
  std::size_t idle() const;

 private:
  mutable absl::Mutex mutex_;
  std::vector<std::unique_ptr<grpc::CompletionQueue>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace warpfold
