// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The fair end of a simulated world: everybody gets turns until all calls have their responses, those that
// stay silent time out, and nothing may be left.
#include <algorithm>
#include <numeric>
#include <utility>

#include "tests/server/simulation/simulation.h"

namespace warpfold::server {
namespace {

// In each round of the fair end everybody has a turn. A stream has fewer than a dozen messages and needs
// fewer than a dozen slots; there are at most 8.
constexpr int kMaxRounds = 200;

}  // namespace

bool World::AllAnswered() const {
  return std::all_of(clients_.begin(), clients_.end(),
                     [](const SimulatedClient& client) { return client.answered() || client.is_silent(); });
}

// Silent clients stay, and must not be in anybody's way.
void World::Settle() {
  std::vector<std::size_t> order(clients_.size());
  std::iota(order.begin(), order.end(), 0);
  for (int round = 0; !AllAnswered() && ledger_.violation.empty(); ++round) {
    for (const SimulatedClient& client : clients_) {
      if (client.answered() || client.is_silent()) continue;
      ledger_.Expect(round < kMaxRounds, client.script().method + " is never answered: " + client.State());
    }
    std::shuffle(order.begin(), order.end(), random_);
    for (const std::size_t client : order) {
      EventOf(client);
      Check();
      if (!working_.empty() && !device_hangs_ && OneIn(random_, 2)) {
        FinishSlot(Below(random_, working_.size()));
      }
    }
    FinishSlots();
    for (SimulatedShard& shard : shards_) {
      if (shard.notified) Notify(shard);
    }
    TimePasses(device_hangs_ ? absl::Seconds(1) : absl::Milliseconds(1));
    Check();
  }
}

void World::LetTheSilentTimeOut() {
  for (SimulatedClient& client : clients_) {
    if (!client.begun()) client.Begin();
    if (client.script().kind != Admission::Kind::kWatch) continue;
    client.Break();
    if (client.CanReportBreak()) client.ReportBreak();
  }
  // The device first reduces what the clients have sent. Then the world waits for the clients that are left.
  do {
    FinishSlots();
    TimePasses(absl::Milliseconds(1));
    Check();
  } while (!working_.empty() && !device_hangs_);
  constexpr int kLooks = 30;  // each counts for a second: calls end, a trial begins, and does not end
  for (int look = 0; device_hangs_ && look < kLooks; ++look) {
    TimePasses(absl::Seconds(look == 5 ? 1000 : 1));  // it was suspended
    Check();
  }
  ledger_.Expect(working_.empty() || ledger_.device_lost, "a device that hangs is not noticed");
  TimePasses(service_.limits.call.idle);
  Check();
  // Clients that do not even take the response are cut off.
  for (absl::Duration wait; wait < service_.limits.call.idle; wait += WatchedTime::kLongestGap) {
    TimePasses(WatchedTime::kLongestGap);
  }
  Check();
}

void World::CheckEnd() {
  FinishSlots();
  while (!others_.empty()) LeaveAPlace();
  for (SimulatedShard& shard : shards_) shard.shard->OnTick(shard.shard->Now());
  for (SimulatedClient& client : clients_) {
    ledger_.Expect(client.answered(), client.script().method + ": not answered at the end");
    while (client.CanSay()) client.Say(random_);
    while (client.CanConfirm()) client.Confirm();
    if (client.CanTakeAnswer()) client.TakeAnswer();
    if (client.CanForget()) client.Forget();
  }
  for (const SimulatedShard& shard : shards_) {
    const SlotPool& slots = shard.shard->slots();
    ledger_.Expect(slots.waiting() == 0, "somebody still waits for a slot");
    if (device_hangs_) continue;
    ledger_.Expect(slots.free() == slots.size(), "a slot is lost");
    ledger_.Expect(!shard.shard->is_busy(), "a shard that is busy with nothing");
  }
  ledger_.Expect(device_hangs_ || heap_.held() == 0, "a message is held at the end");
  const std::string wrong = device_hangs_ ? "" : ledger_.arrays.JudgeEnd(service_);
  ledger_.Expect(wrong.empty(), wrong);
  ledger_.Expect(service_.admission.in_progress() == 0, "admission holds places of nobody");
  const int calls = static_cast<int>(clients_.size());
  ledger_.Expect(counter_.begun == calls && counter_.ended == calls, "not every call is observed once");
  ledger_.Expect(backend_.behaviour.starts - backend_.behaviour.waits == static_cast<int>(working_.size()),
                 "a slot's result is not collected");
  ledger_.Expect(backend_.behaviour.misuses == 0, "a slot is used against its contract");
}

}  // namespace warpfold::server
