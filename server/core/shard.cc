// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/shard.h"

#include <algorithm>

namespace warpfold::server {

void Shard::Remove(Call* call) {
  const auto found = std::find(calls_.begin(), calls_.end(), call);
  if (found == calls_.end()) return;
  *found = calls_.back();
  calls_.pop_back();
}

void Shard::ForEach(const std::function<void(Call&)>& visit) {
  // Answers may come back as events at once, and end calls.
  const std::vector<Call*> calls = calls_;
  for (Call* call : calls) visit(*call);
  AfterEvent();
}

void Shard::OnHealthChanged() {
  ForEach([](Call& call) { call.OnHealthChanged(); });
}

void Shard::StopAll(const absl::Status& why) {
  ForEach([&why](Call& call) { call.Stop(why); });
}

void Shard::EndAll(const absl::Status& why) {
  ForEach([&why](Call& call) { call.End(why); });
}

void Shard::OnTick() {
  slots_.Poll();
  const absl::Time now = Now();
  slots_.LookAtDevice(now);
  canary_.OnTick(now);
  service_.residents.Expire(now);
  ForEach([now](Call& call) { call.CheckTime(now); });
  if (const absl::Status fault = service_.device.fault(); !fault.ok()) StopAll(fault);
}

}  // namespace warpfold::server
