// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/calls/shard.h"

#include <algorithm>
#include <optional>

namespace warpfold::server {
namespace {

// A device that has failed gives no notice of the end of its work, so it is polled.
constexpr absl::Duration kPollInterval = absl::Milliseconds(10);

}  // namespace

absl::Duration Shard::LongestWait(absl::Duration until_tick) const {
  if (const std::optional<absl::Time> held = turns_.held_until(); held.has_value()) {
    until_tick = std::min(until_tick, *held - Now());
  }
  if (slots_.in_flight() > 0) return std::min(until_tick, kPollInterval);
  if (is_busy()) return until_tick;
  return std::max(until_tick, canary_.next() - Now());
}

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

void Shard::Work() {
  slots_.Poll();
  turns_.Serve();
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

void Shard::OnTick(absl::Time idle_at) {
  slots_.Poll();
  const absl::Time now = Now();
  slots_.CheckDeadlines(now);
  canary_.OnTick(now);
  turns_.OnTick();
  service_.residents.Expire(now);
  ForEach([=](Call& call) { call.CheckTime(now, idle_at); });
  if (const absl::Status fault = service_.device.fault(); !fault.ok()) StopAll(fault);
  PublishGauges();
}

void Shard::PublishGauges() {
  gauges_.slots_free.store(slots_.free(), std::memory_order_relaxed);
  gauges_.slots_in_flight.store(slots_.in_flight(), std::memory_order_relaxed);
  gauges_.waiting.store(slots_.waiting(), std::memory_order_relaxed);
}

}  // namespace warpfold::server
