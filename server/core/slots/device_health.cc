// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/slots/device_health.h"

#include <algorithm>
#include <utility>

#include "kernels/error.h"
#include "proto/error_reasons.h"

namespace warpfold::server {
namespace {

constexpr absl::Duration kGrace = absl::Seconds(10);

}  // namespace

absl::Duration DeviceDeadline(std::uint64_t bytes, absl::Duration most_time_per_byte) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 60;  // a Duration multiplies by signed numbers
  return kGrace + most_time_per_byte * std::min(bytes, kMost);
}

absl::Status AwaitSlot(kernels::Slot& slot, std::uint64_t bytes, const Clock& clock) {
  WatchedTime lasts;
  while (!slot.Finished()) {
    if (lasts.Advance(clock()) < DeviceDeadline(bytes, slot.MostTimePerByte())) continue;
    return kernels::Error(absl::StatusCode::kUnavailable, reason::kDeviceLost,
                          "the device does not end what it is given");
  }
  return absl::OkStatus();
}

absl::Duration DeviceCalls::LastsFor(absl::Time now) {
  const std::uint64_t turns = turns_.load(std::memory_order_relaxed);
  if (turns != std::exchange(seen_, turns) || turns % 2 == 0) lasts_ = {};
  return lasts_.Advance(now);
}

absl::Status DeviceHealth::fault() const {
  if (absl::Status fault = backend_.fault(); !fault.ok()) return fault;
  if (!lost_) return absl::OkStatus();
  const std::lock_guard lock(mutex_);
  return why_;
}

void DeviceHealth::Lose(absl::string_view why) {
  const std::lock_guard lock(mutex_);
  if (why_.ok()) why_ = kernels::Error(absl::StatusCode::kUnavailable, reason::kDeviceLost, why);
  lost_ = true;
}

}  // namespace warpfold::server
