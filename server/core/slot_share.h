// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The slots of one shard, and the calls that use them or wait for them. Nothing here blocks.
//
// A call may keep a slot that is partly filled while it waits for its client's next bytes, so that the device
// gets large pieces from a client that sends small ones. It is a loan that can be called in at any time: as
// soon as another call finds no slot free, the holder is told to start what it has, and the slot comes back
// when the device is done, whatever the client does. First come, first served: whoever waits longest gets the
// next slot, so a call that takes slots again and again cannot starve another.
//
// Threads: the shard's only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "server/core/device_health.h"

namespace warpfold::server {

// What the device uses for a slot's work, beside the slot.
struct InUse {
  std::shared_ptr<const void> memory = nullptr;
  bool ends_soon = false;   // mostly within a millisecond
  std::uint64_t bytes = 0;  // that it reads, once for each operator: the device may take longer for more
};

class SlotShare {
 public:
  // Who takes slots. The functions are called by Poll and Serve, and OnSlotWanted by other holders' Take.
  // They may call the share, but must not destroy the holder.
  class Holder {
   public:
    virtual ~Holder() = default;
    // A slot is free for this holder, who waited: Take gives it one.
    virtual void OnSlotFree() = 0;
    // Another call needs a slot, and this holder has lent one out to its client's slowness: start it.
    virtual void OnSlotWanted() = 0;
    // The range that this holder started on `slot` is reduced, or failed. The slot is no longer its.
    virtual void OnSlotFinished(kernels::Slot* slot, absl::StatusOr<kernels::SlotResult> result) = 0;
  };

  // The slots must outlive the share, and so must `device`, which hears of work that does not end.
  explicit SlotShare(const std::vector<kernels::Slot*>& slots, DeviceHealth* device = nullptr);

  // A slot to fill, the holder's until Start or Return; null if none is free, or if others wait for one: then
  // OnSlotFree tells when to ask again.
  kernels::Slot* Take(Holder& holder);

  // Gives back a slot that was taken but not started.
  void Return(kernels::Slot* slot);

  // Whether the holder's slot, taken and not started, only waits for the client's next bytes. Not while
  // others wait: the holder should then start it.
  void SetAwaitingClient(kernels::Slot* slot, bool awaiting);

  // The holder has started its slot, or tried to: `started` is what Start, StartFrom or StartStore returned,
  // and is passed on. The end is reported by OnSlotFinished, at the earliest by the next Poll; until then
  // in_use.memory stays alive, also if the holder leaves. After
  // an error the slot has been given back.
  absl::Status Started(Holder& holder, kernels::Slot* slot, absl::Status started, const InUse& in_use = {});

  // The holder can do nothing until what it started is done.
  void AwaitFinish(const Holder& holder);

  // Whether somebody waits for work that mostly takes less time than being told of its end: then it is better
  // to Poll for a while.
  bool AwaitsSoon() const;
  // Has the device tell of the end of whatever somebody waits for. To be called before the shard's thread
  // waits.
  void AskForNotices();

  // The result, where the device finished within Start or has finished since; the slot is then given back.
  // Null while it works. For the one who started it.
  std::optional<absl::StatusOr<kernels::SlotResult>> Collect(kernels::Slot* slot);

  // The holder leaves: it waits no more and hears no more; what the device still works on for it is given
  // back when it is done. It must have returned what it took.
  void Leave(Holder& holder);

  // Reports what the device has finished, and serves.
  void Poll();
  // Whether the device has had something for too long: then it is lost. To be called after Poll, often.
  void LookAtDevice(absl::Time now);
  // To be marked with each call that starts something on a slot. Those that the share makes are.
  DeviceCalls& device_calls() { return device_calls_; }
  // Hands free slots to those who wait.
  void Serve();

  std::size_t size() const { return entries_.size(); }
  std::size_t free() const;
  std::size_t in_flight() const;
  std::size_t waiting() const { return waiters_.size(); }

 private:
  enum class State : std::uint8_t { kFree, kTaken, kInFlight };
  struct Entry {
    kernels::Slot* slot = nullptr;
    State state = State::kFree;
    bool awaiting_client = false;
    Holder* holder = nullptr;  // null in flight: whoever started it has left
    InUse in_use = {};
    bool awaited = false;                                // by its holder
    bool noticed = false;                                // the device was asked to tell
    absl::Duration deadline = absl::InfiniteDuration();  // of what is in flight
    WatchedTime lasts = {};                              // likewise
  };

  bool IsAwaited(const Entry& entry) const {
    return entry.state == State::kInFlight && (entry.awaited || !waiters_.empty());
  }
  Entry& EntryOf(const kernels::Slot* slot);
  Entry* FindFree();
  void CallInALoan();

  DeviceHealth* const device_;
  DeviceCalls device_calls_;
  std::vector<Entry> entries_;
  std::deque<Holder*> waiters_;     // longest waiting first
  const Holder* served_ = nullptr;  // has its turn: the next Take of this one does not queue
};

}  // namespace warpfold::server
