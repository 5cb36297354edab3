// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/bench/staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace warpfold::cli {

Staging::Staging() : buffer_(std::make_unique_for_overwrite<std::byte[]>(kBytes)) {
  std::memset(buffer_.get(), 1, kBytes);
}

void Staging::Append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::span<std::byte> to = Next(bytes.size());
    std::memcpy(to.data(), bytes.data(), to.size());
    bytes = bytes.subspan(to.size());
  }
}

std::span<std::byte> Staging::Next(std::size_t most) {
  if (used_ == kBytes) used_ = 0;
  const std::size_t size = std::min(most, kBytes - used_);
  return {buffer_.get() + std::exchange(used_, used_ + size), size};
}

std::unique_ptr<Staging> StagingPool::Take() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      std::unique_ptr<Staging> staging = std::move(free_.back());
      free_.pop_back();
      return staging;
    }
  }
  return std::make_unique<Staging>();
}

void StagingPool::GiveBack(std::unique_ptr<Staging> staging) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(staging));
}

}  // namespace warpfold::cli
