// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Slices of the caller's memory in gRPC's hands, counted: no call returns before it has them all back,
// whatever its outcome. gRPC gives a slice back when its bytes are in the socket, or its stream is cancelled
// before they were on their way there, or the connection is closed. Internal.
#pragma once

#include <grpcpp/support/slice.h>

#include <cstddef>
#include <span>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/connections/connection.h"

namespace warpfold {

// Threads: slices come back on any thread; all else is for one thread.
class LentMemory {
 public:
  // For calls on this connection, which must outlive it.
  explicit LentMemory(const Connection& connection) : connection_(connection) {}
  LentMemory(const LentMemory&) = delete;
  LentMemory& operator=(const LentMemory&) = delete;
  // Blocks until all slices are back, for which it breaks the connection off after kTakenWithin.
  ~LentMemory();

  // A slice over `bytes`, which must stay as they are until it is back.
  grpc::Slice Lend(std::span<const std::byte> bytes);

  // Whether all slices are back, within `timeout`.
  bool AwaitReturn(absl::Duration timeout);

 private:
  void TakeBack();

  const Connection& connection_;
  absl::Mutex mutex_;
  int slices_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Whether the memory is there to its end, which a mapped file that was cut has lost: whether the system can
// read the last byte. Without a descriptor left to ask it by, yes.
bool CanBeRead(std::span<const std::byte> bytes);

}  // namespace warpfold
