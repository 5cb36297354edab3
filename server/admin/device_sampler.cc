// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/admin/device_sampler.h"

#include <chrono>
#include <utility>

#include "absl/time/clock.h"

namespace warpfold::server {
namespace {

constexpr auto kSampleInterval = std::chrono::seconds(5);

}  // namespace

DeviceSampler::DeviceSampler(kernels::Backend& backend) : backend_(backend), thread_([this] { Run(); }) {}

DeviceSampler::~DeviceSampler() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ending_changed_.notify_all();
  thread_.join();
}

std::optional<DeviceSampler::Sample> DeviceSampler::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

void DeviceSampler::Run() {
  std::unique_lock lock(mutex_);
  do {
    lock.unlock();
    std::vector<kernels::DeviceTelemetry> telemetry = backend_.Telemetry();
    lock.lock();
    if (telemetry.empty()) break;
    last_ = {.time = absl::Now(), .telemetry = std::move(telemetry)};
  } while (!ending_changed_.wait_for(lock, kSampleInterval, [this] { return ending_; }));
}

}  // namespace warpfold::server
