// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Starts a tiny reduction on each device now and then while nobody uses a shard's slots, and compares its
// result with the host's: so a failed device is found before the next client uses it. The reduction has the
// same deadline as one that a client starts.
//
// Threads: only the shard's.
#pragma once

#include <vector>

#include "absl/time/time.h"
#include "server/core/slots/device_health.h"
#include "server/core/slots/slot_pool.h"

namespace warpfold::server {

class Canary : private SlotPool::Holder {
 public:
  static constexpr absl::Duration kInterval = absl::Seconds(5);

  // `pool` and `device`, which is notified of failures, must outlive it. `now` is the time of construction.
  Canary(SlotPool& pool, DeviceHealth& device, absl::Time now);
  ~Canary() override { pool_.Leave(*this); }
  Canary(const Canary&) = delete;
  Canary& operator=(const Canary&) = delete;

  // Starts reductions if it is time for them.
  void OnTick(absl::Time now);
  // The time by which OnTick should be called.
  absl::Time next() const { return next_; }

  // Starts no more reductions.
  void Retire();

 private:
  void OnSlotFree() override {}
  void OnSlotWanted() override {}
  void OnSlotFinished(kernels::Slot* slot, absl::StatusOr<kernels::SlotResult> result) override;

  void Start(int device);
  void Judge(const absl::StatusOr<kernels::SlotResult>& result);

  SlotPool& pool_;
  DeviceHealth& device_;
  const kernels::ReductionPlan reduction_;
  const std::vector<double> array_;
  const std::uint64_t expected_bits_;  // of the sum
  absl::Time next_;
  bool retired_ = false;
};

}  // namespace warpfold::server
