// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/lent_memory.h"

#include <fcntl.h>
#include <unistd.h>

namespace warpfold {

LentMemory::~LentMemory() {
  if (AwaitReturn(kTakenWithin)) return;
  // This needs a descriptor, which may become available only later.
  while (!connection_.BreakOff()) {
    if (AwaitReturn(kTakenWithin)) return;
  }
  AwaitReturn(absl::InfiniteDuration());
}

grpc::Slice LentMemory::Lend(std::span<const std::byte> bytes) {
  {
    absl::MutexLock lock(&mutex_);
    ++slices_out_;
  }
  // gRPC's type for the memory is not const, but a slice that is sent is only read.
  void* memory = const_cast<std::byte*>(bytes.data());
  return grpc::Slice(
      memory, bytes.size(), [](void* self) { static_cast<LentMemory*>(self)->TakeBack(); }, this);
}

bool LentMemory::AwaitReturn(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  const auto none_out = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return slices_out_ == 0; };
  return mutex_.AwaitWithTimeout(absl::Condition(&none_out), timeout);
}

void LentMemory::TakeBack() {
  absl::MutexLock lock(&mutex_);
  --slices_out_;
}

bool CanBeRead(std::span<const std::byte> bytes) {
  if (bytes.empty()) return true;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return true;
  const bool can = write(ends[1], &bytes.back(), 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return can;
}

}  // namespace warpfold
