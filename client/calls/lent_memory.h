// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Counts the slices of the caller's memory that gRPC holds: no call returns before it has them all back,
// whatever its outcome. gRPC gives a slice back when its bytes are in the socket, or its stream is cancelled
// before they were on their way there, or the connection is closed. Internal.
#pragma once

#include <grpcpp/support/slice.h>

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <span>

#include "absl/time/time.h"
#include "client/connections/connection.h"

namespace warpfold {

// Threads: slices come back on any thread; everything else is for one thread.
class LentMemory {
 public:
  // For calls on this connection, which must outlive it.
  explicit LentMemory(const Connection& connection) : connection_(connection) {}
  LentMemory(const LentMemory&) = delete;
  LentMemory& operator=(const LentMemory&) = delete;
  // Blocks until all slices are back; after kTakenWithin, it breaks off the connection for this.
  ~LentMemory();

  // A slice over `bytes`, which must not change until it is back.
  grpc::Slice Lend(std::span<const std::byte> bytes);

  // Whether all slices are back, within `timeout`.
  bool AwaitReturn(absl::Duration timeout);

 private:
  void TakeBack();

  const Connection& connection_;
  std::mutex mutex_;
  int slices_out_ = 0;  // guarded by mutex_
  std::condition_variable returned_;
};

// Whether the memory exists to its end, which is not so for a mapped file that was truncated: whether the
// system can read the last byte. If no descriptor is left with which to ask, yes.
bool CanBeRead(std::span<const std::byte> bytes);

}  // namespace warpfold
