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
    const std::lock_guard lock(mutex_);
    ++slices_out_;
  }
  // gRPC's type for the memory is not const, but a slice that is sent is only read.
  void* memory = const_cast<std::byte*>(bytes.data());
  return grpc::Slice(
      memory, bytes.size(), [](void* self) { static_cast<LentMemory*>(self)->TakeBack(); }, this);
}

bool LentMemory::AwaitReturn(absl::Duration timeout) {
  std::unique_lock lock(mutex_);
  const auto none_out = [this] { return slices_out_ == 0; };
  if (timeout != absl::InfiniteDuration()) {
    return returned_.wait_for(lock, absl::ToChronoNanoseconds(timeout), none_out);
  }
  returned_.wait(lock, none_out);
  return true;
}

void LentMemory::TakeBack() {
  const std::lock_guard lock(mutex_);
  --slices_out_;
  // Within the lock: whoever waits may destroy this as soon as it has it.
  if (slices_out_ == 0) returned_.notify_all();
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
