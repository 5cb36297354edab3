// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/admin/device_sampler.h"

#include <chrono>
#include <utility>

#include "absl/time/clock.h"

namespace warpfold::server {
namespace {

constexpr auto kInterval = std::chrono::seconds(5);

}  // namespace

DeviceSampler::DeviceSampler(kernels::Backend& backend) : backend_(backend), thread_([this] { Run(); }) {}

DeviceSampler::~DeviceSampler() {
  End(absl::InfiniteDuration());
  thread_.join();
}

bool DeviceSampler::End(absl::Duration timeout) {
  std::unique_lock lock(mutex_);
  ending_ = true;
  ended_.notify_all();
  const auto has_ended = [this] { return has_ended_; };
  if (timeout != absl::InfiniteDuration()) {
    return ended_.wait_for(lock, absl::ToChronoNanoseconds(timeout), has_ended);
  }
  ended_.wait(lock, has_ended);
  return true;
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
  } while (!ended_.wait_for(lock, kInterval, [this] { return ending_; }));
  has_ended_ = true;
  ended_.notify_all();
}

}  // namespace warpfold::server
