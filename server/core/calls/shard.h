// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A share of the service that one thread runs: calls, and the slots they use. A call lives and dies in its
// shard, so that neither needs a lock. The owner of the thread (rpc/rpc_shard.h, or a simulation) delivers
// the events: those of calls, of a device that has finished something, and of time.
//
// Threads: a shard is used by one thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/core/admission/turns.h"
#include "server/core/calls/call.h"
#include "server/core/calls/plan_cache.h"
#include "server/core/calls/service.h"
#include "server/core/slots/canary.h"
#include "server/core/slots/slot_pool.h"

namespace warpfold::server {

// How much of a shard is in use. Any thread may read these numbers without waiting for the shard, which may
// be busy. Each number is right at some moment, but the three need not be of the same moment.
struct ShardGauges {
  std::atomic<std::size_t> slots_free = 0;
  std::atomic<std::size_t> slots_in_flight = 0;
  std::atomic<std::size_t> waiting = 0;  // calls, for a slot
};

class Shard {
 public:
  // `service` and the slots must outlive the shard, and the shard its calls.
  Shard(Service& service, const std::vector<kernels::Slot*>& slots)
      : service_(service),
        slots_(slots, &service.device),
        turns_(service.tags, service.clock),
        canary_(slots_, service.device, service.clock()) {
    PublishGauges();
  }

  Service& service() { return service_; }
  SlotPool& slots() { return slots_; }
  Turns& turns() { return turns_; }
  PlanCache& plans() { return plans_; }
  absl::Time Now() const { return service_.clock(); }

  // Calls are added in Begin, and removed when they are destroyed.
  void Add(Call* call) { calls_.push_back(call); }
  void Remove(Call* call);

  // Events.
  void OnDeviceFinished() { slots_.Poll(); }
  void OnHealthChanged();
  void StopAll(const absl::Status& why);
  void EndAll(const absl::Status& why);
  // Looks at the clock and at the device. Call this some twenty times a second while is_busy(), and when the
  // device is to be tested. Ends all reductions once the device is lost. `idle_at`: when its queue was last
  // found empty.
  void OnTick(absl::Time idle_at);
  // How long the shard's thread may wait for events, if its next tick is `until_tick` away: less while the
  // device is at work or messages are held, and until the device is tested next (canary.h) while there is
  // nothing to do. After this time, call OnDeviceFinished.
  absl::Duration LongestWait(absl::Duration until_tick) const;
  // The server is ending: no longer tests the device.
  void Retire() { canary_.Retire(); }

  // Looks at the device, serves calls that wait for a slot, and takes messages whose turn it is. Call this
  // while has_work(), if there is no other event, or after many; while messages are held
  // (turns().held_until()), after that time, which LongestWait knows.
  void Work();
  bool has_work() const {
    return (turns_.has_ready() && !turns_.held_until().has_value()) || slots_.can_serve();
  }

  // Call this after each event of a call: others may wait for something that the call gave back, or that the
  // device has finished meanwhile.
  void AfterEvent() {
    if (slots_.in_flight() > 0 || slots_.waiting() > 0) slots_.Poll();
  }
  // Call this before the shard's thread waits for events: from then on the device signals with an event what
  // is waited for. For PollTime it pays to poll the device (OnDeviceFinished) instead; none if the device has
  // nothing to signal.
  void BeforeWaiting() {
    slots_.AskForNotices();
    PublishGauges();
  }
  std::optional<absl::Duration> PollTime() const { return slots_.PollTime(); }

  // From any thread.
  const ShardGauges& gauges() const { return gauges_; }

  bool is_busy() const { return !calls_.empty() || slots_.in_flight() > 0; }

 private:
  // Calls `visit` for each call that there is now; it may answer calls, but must not destroy them.
  void ForEach(const std::function<void(Call&)>& visit);

  void PublishGauges();

  Service& service_;
  SlotPool slots_;
  Turns turns_;
  PlanCache plans_;
  ShardGauges gauges_;
  Canary canary_;
  std::vector<Call*> calls_;
};

}  // namespace warpfold::server
