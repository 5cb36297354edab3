// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/server/simulation/simulation.h"

#include <algorithm>
#include <utility>

#include "kernels/error.h"

namespace warpfold::server {
namespace {

absl::Status Draining() {
  return kernels::Error(absl::StatusCode::kUnavailable, "DRAINING", "the server is shutting down");
}

// Stands for a client's identity: the shard itself tries the device, or an array of an unknown client is put.
constexpr std::uint64_t kTrial = ~std::uint64_t{0};
constexpr std::uint64_t kStore = kTrial - 1;

bool Happens(Random& random, std::size_t one_in) { return one_in != 0 && OneIn(random, one_in); }

}  // namespace

void World::LeaveAPlace() {
  if (others_.empty()) return;
  --ledger_.Count(others_.back().peer, others_.back().kind);
  others_.pop_back();
}

bool World::OnStart(std::uint64_t identity) {
  const bool fails = device_lost_ || Happens(random_, fails_ * 4);
  clients_[identity].OnOwnStart(fails);
  return !fails;
}

absl::Status World::StartTrial(const std::function<absl::Status()>& start) {
  ledger_.Expect(working_.size() < slots_.size(), "a trial of a device that is in use");
  if (device_lost_ || Happens(random_, fails_ * 4)) return DeviceLost();
  absl::Status status = start();
  if (status.ok()) working_.push_back(kTrial);
  return status;
}

absl::Status World::StartStore(const std::function<absl::Status()>& start) {
  if (device_lost_ || Happens(random_, fails_ * 4)) {
    ledger_.arrays.store_failed = true;
    return DeviceLost();
  }
  absl::Status status = start();
  if (!status.ok()) return status;
  working_.push_back(kStore);
  if (!device_hangs_ && Happens(random_, finishes_at_once_)) FinishSlot(working_.size() - 1);
  return status;
}

void World::OnStarted(std::uint64_t identity) {
  working_.push_back(identity);
  Shard* const shard = &clients_[identity].shard();
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    if (i == identity || &clients_[i].shard() != shard) continue;
    const std::string party = clients_[i].party();
    const bool is_mate = clients_[identity].party() == party;
    // While its party has a slot, parties with fewer come first.
    if (!is_mate && shard->slots().slots_of(party) > 0) continue;
    const auto party_size = std::count_if(clients_.begin(), clients_.end(), [&](const SimulatedClient& c) {
      return &c.shard() == shard && c.party() == party;
    });
    clients_[i].OnStartOfOther(identity, is_mate, static_cast<int>(party_size));
  }
  if (!device_hangs_ && Happens(random_, finishes_at_once_)) FinishSlot(working_.size() - 1);
}

void World::FinishSlot(std::size_t n) {
  const bool fails = device_lost_ || Happens(random_, fails_);
  if (fails && working_[n] == kStore) ledger_.arrays.store_failed = true;
  if (fails && working_[n] < kStore) clients_[working_[n]].OnOwnSlotFailed();
  working_.erase(working_.begin() + static_cast<std::ptrdiff_t>(n));
  backend_.behaviour.Finish(n, fails ? DeviceLost() : absl::OkStatus());
}

void World::FinishSlots() {
  while (!working_.empty() && !device_hangs_) FinishSlot(Below(random_, working_.size()));
}

void World::Notify(SimulatedShard& shard) {
  shard.notified = false;
  for (SimulatedClient& client : clients_) {
    if (&client.shard() == shard.shard.get()) client.OnLook();
  }
  shard.shard->OnDeviceFinished();
  shard.shard->BeforeWaiting();
  for (const SimulatedClient& client : clients_) {
    if (&client.shard() == shard.shard.get()) client.CheckDevice();
  }
}

void World::TakeTurns(SimulatedShard& shard) {
  if (const std::optional<absl::Time> held = shard.shard->turns().held_until(); held.has_value()) {
    MomentPasses(std::max(*held - ledger_.now, absl::ZeroDuration()));
  } else if (!shard.shard->has_work()) {
    return;
  }
  shard.shard->Work();
  shard.shard->BeforeWaiting();
}

void World::MomentPasses(absl::Duration time) {
  ledger_.now += time;
  for (SimulatedClient& client : clients_) client.TimePasses(time);
}

// Before a shard's thread waits for long, nobody waits for a turn except behind those who wait for slots.
void World::TimePasses(absl::Duration time) {
  for (SimulatedShard& shard : shards_) {
    while (shard.shard->has_work() || shard.shard->turns().held_until().has_value()) TakeTurns(shard);
    ledger_.Expect(!shard.shard->turns().has_waiting() || shard.shard->slots().waiting() > 0,
                   "messages wait for turns that nobody else has");
  }
  MomentPasses(time);
  for (SimulatedClient& client : clients_) {
    client.OnTick();
    client.OnLook();
  }
  for (SimulatedShard& shard : shards_) {
    shard.shard->OnTick(shard.shard->Now());
    // A call that asks its client for more only then may be overdue, which the next tick notices.
    while (shard.shard->has_work()) {
      while (shard.shard->has_work()) shard.shard->Work();
      shard.shard->OnTick(shard.shard->Now());
    }
    shard.shard->BeforeWaiting();
    const SlotPool& slots = shard.shard->slots();
    // With several devices, the free slot may be another's.
    ledger_.Expect(slots.waiting() == 0 || slots.free() == 0 || (devices_ > 1 && slots.free() < slots.size()),
                   "a slot is free and somebody waits");
  }
  for (const SimulatedClient& client : clients_) {
    client.CheckTime();
    client.CheckDevice();
  }
  WatchTheDevice();
}

// As RpcServer does.
void World::WatchTheDevice() {
  const absl::Status fault = service_.device.fault();
  if (fault.ok() || std::exchange(ledger_.device_lost, true)) return;
  service_.admission.Close(fault);
  for (std::string* reason : {&ledger_.closed_to_reductions, &ledger_.closed_to_merges}) {
    if (reason->empty()) *reason = "DEVICE_LOST";
  }
  for (SimulatedShard& shard : shards_) shard.shard->StopAll(fault);
  for (const SimulatedClient& client : clients_) {
    const bool stops = client.begun() && IsWork(client.script().kind);
    ledger_.Expect(!stops || client.answered(), "not answered when the device was lost");
  }
}

void World::EventOf(std::size_t which) {
  SimulatedClient& client = clients_[which];
  if (!client.begun()) return client.Begin();
  if (client.CanReportBreak() && OneIn(random_, 2)) return client.ReportBreak();
  if (client.CanConfirm() && OneIn(random_, 2)) return client.Confirm();
  if (client.CanSay()) return client.Say(random_);
  if (client.CanTakeAnswer() && OneIn(random_, 2)) return client.TakeAnswer();
  if (client.CanForget()) return client.Forget();
  if (client.script().leaves && OneIn(random_, 4)) client.Break();
}

void World::Drain() {
  switch (drained_++) {
    case 0:
      service_.admission.CloseToReductions(Draining());
      if (!ledger_.device_lost) ledger_.closed_to_reductions = "DRAINING";
      break;
    case 1:
      service_.admission.Close(Draining());
      if (!ledger_.device_lost) ledger_.closed_to_merges = "DRAINING";
      break;
    case 2:
      ledger_.stopped = true;
      for (SimulatedShard& shard : shards_) shard.shard->StopAll(Draining());
      for (const SimulatedClient& client : clients_) {
        const bool stops = client.begun() && IsWork(client.script().kind);
        ledger_.Expect(!stops || client.answered(), "not answered when all were stopped");
      }
      break;
    default:
      break;
  }
}

void World::EventOfTheService() {
  switch (Below(random_, 14)) {
    case 0:
      return Drain();
    case 1:
      if (fails_ != 0) device_lost_ = true;
      return;
    case 2:
      return LeaveAPlace();
    case 3:
      device_hangs_ = may_hang_;
      return;
    default:
      service_.serving = !service_.serving;
      for (SimulatedShard& shard : shards_) shard.shard->OnHealthChanged();
  }
}

void World::RandomEvent() {
  const std::size_t event = Below(random_, 64);
  if (event < 36) {
    EventOf(Below(random_, clients_.size()));
  } else if (event < 50) {
    if (!working_.empty() && !device_hangs_) FinishSlot(Below(random_, working_.size()));
  } else if (event < 58) {
    SimulatedShard& shard = shards_[Below(random_, shards_.size())];
    if (shard.notified) Notify(shard);
    TakeTurns(shard);
  } else if (event < 63) {
    const std::size_t longest_ms = is_slow_ ? 8'000 : OneIn(random_, 30) ? 14'000 : 200;
    TimePasses(absl::Milliseconds(Below(random_, longest_ms)));
  } else {
    EventOfTheService();
  }
}

std::string World::Run() {
  for (std::size_t steps = 20 + Below(random_, 150); steps > 0 && ledger_.violation.empty(); --steps) {
    RandomEvent();
    Check();
  }
  if (ledger_.violation.empty()) Settle();
  if (ledger_.violation.empty()) LetTheSilentTimeOut();
  if (ledger_.violation.empty()) CheckEnd();
  return ledger_.violation;
}

void World::Check() {
  for (SimulatedClient& client : clients_) client.Check();
  ledger_.Expect(service_.admission.in_progress() ==
                     ledger_.Inside(Admission::Kind::kReduction) + ledger_.Inside(Admission::Kind::kMerge),
                 "admission does not count the calls in progress");
  for (const SimulatedShard& shard : shards_) {
    const SlotPool& slots = shard.shard->slots();
    std::size_t in_progress = 0;
    std::size_t may_wait = 0;
    for (const SimulatedClient& client : clients_) {
      if (!client.begun() || client.answered() || &client.shard() != shard.shard.get()) continue;
      ++in_progress;
      // Four long segments of an array that lies there are reduced at once, each with slots of its own.
      may_wait += IsSegments(client.script()) ? 5 : 1;
    }
    ledger_.Expect(slots.waiting() <= may_wait, "an answered call waits for a slot");
    ledger_.Expect(in_progress > 0 || !shard.shard->turns().has_waiting(),
                   "an answered call waits for its turn");
  }
}

}  // namespace warpfold::server
