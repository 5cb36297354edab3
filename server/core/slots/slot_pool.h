// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The slots of one shard, and the calls that use them or wait for them. Nothing here blocks.
//
// A call may keep a slot that is partly filled while it waits for its client's next bytes, so that the device
// gets large pieces from a client that sends small ones. Such a slot can be revoked at any time: as soon as
// another call finds no free slot, the holder is told to start what it has, and the slot is free again when
// the device has finished, whatever the client does.
//
// Calls belong to parties: the identities of callers, or their hosts. A free slot goes to the party that has
// the fewest slots, among those to the one that was served longest ago, and within it to the call that has
// waited longest: neither a call that takes slots again and again nor a party with many calls can starve
// another. A call whose array lies on one of several devices asks for a slot of that device, and waits only
// for one of these.
//
// Threads: only the shard's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "proto/time_awake.h"
#include "server/core/slots/device_health.h"

namespace warpfold::server {

// How long it is worth polling for the end of work on an array of this size in the device's memory. The array
// may take several slots: the shard counts the time once, from when it first polls for any of them.
inline absl::Duration PollForMemory(std::uint64_t array_bytes) {
  return absl::FromChrono(TimeAwake(array_bytes));
}
// The same for bytes that the device fetches from the host, at 20 GB/s if it fetches for another slot, too.
inline absl::Duration PollForFetched(std::uint64_t bytes) {
  return absl::Microseconds(50) + absl::Nanoseconds(bytes / 20);
}

// Describes the work that a slot was started on: what the device needs besides the slot, and how the shard
// waits for the end.
struct DeviceWork {
  std::shared_ptr<const void> memory = nullptr;  // stays alive until the work has ended
  absl::Duration poll = {};  // how long to poll for the end before asking for a notice of it
  std::uint64_t bytes = 0;   // how many the device reads, times operators: its deadline grows with them
  bool segments = false;     // the slot was started on segments, not on a range
};

class SlotPool {
 public:
  // An object that takes slots. The functions are called by Poll and Serve, and OnSlotWanted by other
  // holders' Take. They may call the pool, but must not destroy the holder.
  class Holder {
   public:
    // The slots that it takes count for this party.
    explicit Holder(std::string party = "") : party_(std::move(party)) {}
    virtual ~Holder() = default;
    const std::string& party() const { return party_; }
    // A slot is free for this holder, which was waiting: Take gives it one.
    virtual void OnSlotFree() = 0;
    // Another call needs a slot, and this holder keeps one that is only partly filled: start it now. The
    // holder may send results meanwhile, but must not take a slot.
    virtual void OnSlotWanted() = 0;
    // The range that this holder started on `slot` has been reduced, or has failed. The slot no longer
    // belongs to it.
    virtual void OnSlotFinished(kernels::Slot* slot, absl::StatusOr<kernels::SlotResult> result) = 0;
    // Like OnSlotFinished, for a slot that was started on segments. The values are valid until the holder
    // calls the pool, or returns.
    virtual void OnSegmentsFinished(kernels::Slot*, const absl::StatusOr<kernels::SegmentsResult>&) {}

   private:
    const std::string party_;
  };

  // The slots must outlive the pool, and so must `device`, which is notified of work that does not end.
  explicit SlotPool(const std::vector<kernels::Slot*>& slots, DeviceHealth* device = nullptr);

  // A slot to fill, which belongs to the holder until Start or Return; null if none is free, or if others
  // wait for one: then OnSlotFree tells when to ask again. With `device`, which must have a slot here, it is
  // a slot of that device.
  kernels::Slot* Take(Holder& holder, std::optional<int> device = std::nullopt);

  // Lets others have the shard's thread before the holder goes on: it waits for a slot, which must be of
  // `device` if one is named, even if one is free.
  void GiveWay(Holder& holder, std::optional<int> device);

  // A slot that Take could return for this device, for questions about what such slots can hold.
  const kernels::Slot& SlotOf(std::optional<int> device) const;

  // Gives back a slot that was taken but not started.
  void Return(kernels::Slot* slot);

  // Says whether the holder's slot, taken and not started, only waits for the client's next bytes. While
  // others wait for a slot, the holder should start it instead.
  void SetAwaitingClient(kernels::Slot* slot, bool awaiting);

  // To be called when the holder has started its slot, or tried to. `started` is what Start, StartFrom or
  // StartStore returned; Started returns it again. OnSlotFinished reports the end, in the next Poll at the
  // earliest; until then work.memory stays alive, even if the holder leaves. After an error the slot has been
  // given back.
  absl::Status Started(Holder& holder, kernels::Slot* slot, absl::Status started,
                       const DeviceWork& work = {});

  // Whether the holder will be notified of a free slot.
  bool Waits(const Holder& holder) const;

  // Says that the holder can do nothing until the work that it started is done.
  void AwaitFinish(const Holder& holder);

  // How long it is better to Poll than to ask for notices of work that somebody waits for, since that mostly
  // ends before a notice would arrive. None if AskForNotices would ask for nothing.
  std::optional<absl::Duration> PollTime() const;
  // Asks the device for a notice of the end of everything that somebody waits for. To be called before the
  // shard's thread waits.
  void AskForNotices();

  // For the holder, right after it has started the slot: if the device has finished within Start, returns the
  // result and gives the slot back. Nothing while the device works, or if it never finishes so soon.
  std::optional<absl::StatusOr<kernels::SlotResult>> CollectAtOnce(kernels::Slot* slot);
  // The same for a slot that was started on segments. The values are valid until the pool is called.
  std::optional<absl::StatusOr<kernels::SegmentsResult>> CollectSegmentsAtOnce(kernels::Slot* slot);

  // Removes the holder: it no longer waits for slots and receives no more callbacks. Slots that the device is
  // still working on are freed when the device has finished. The holder must already have returned the slots
  // that it took but did not start.
  void Leave(Holder& holder);

  // Reports finished slots to their holders, then serves waiting ones.
  void Poll();
  // Declares the device lost if it has worked on a slot for longer than its deadline. To be called often,
  // after Poll.
  void CheckDeadlines(absl::Time now);
  // Anybody who calls a slot must wrap the call in a DeviceCalls::Scope on this. SlotPool wraps its own
  // calls.
  DeviceCalls& device_calls() { return device_calls_; }
  // Gives free slots to waiting holders. If work ends in Start, it stops once it has worked for one of them:
  // before the next one, the shard's thread should check for events.
  void Serve();
  // Whether Serve has more to do.
  bool can_serve() const { return FindTurn().has_value(); }

  std::size_t size() const { return entries_.size(); }
  // The size of each slot's staging().
  std::size_t slot_bytes() const { return entries_.empty() ? 0 : entries_.front().slot->staging().size(); }
  // How many devices the slots belong to: each device has at least one of them.
  int devices() const { return devices_; }
  std::size_t free() const;
  std::size_t in_flight() const;
  std::size_t waiting() const { return waiting_; }
  // How many slots a party has, taken or in flight.
  int slots_of(const std::string& party) const {
    const auto found = parties_.find(party);
    return found == parties_.end() ? 0 : found->second.slots;
  }

 private:
  enum class State : std::uint8_t { kFree, kTaken, kInFlight };
  struct Waiter {
    Holder* holder;
    std::optional<int> device;  // the device whose slot it needs; none: any
  };
  using Waiters = std::deque<Waiter>;
  // A party that has slots or waits for some.
  struct Party {
    Waiters waiters;           // longest waiting first
    int slots = 0;             // taken, or in flight
    std::uint64_t served = 0;  // when it last got one, or arrived: the number of that event among all of them
  };
  using Parties = std::map<std::string, Party>;
  // The party and the waiter that get a slot next.
  struct Turn {
    Parties::const_iterator party;
    Waiters::const_iterator waiter;
  };
  struct Entry {
    kernels::Slot* slot = nullptr;
    State state = State::kFree;
    bool awaiting_client = false;
    Holder* holder = nullptr;  // null in flight: the holder that started it has left
    std::string party = "";    // of the holder that took it
    DeviceWork work = {};
    bool awaited = false;                                // by its holder
    bool noticed = false;                                // the device was asked for a notice
    absl::Duration deadline = absl::InfiniteDuration();  // of the work in flight
    WatchedTime lasts = {};                              // of the work in flight
  };

  // If the device has finished by now, returns the result and gives the slot back.
  std::optional<absl::StatusOr<kernels::SlotResult>> Collect(kernels::Slot* slot);
  std::optional<absl::StatusOr<kernels::SegmentsResult>> CollectSegments(kernels::Slot* slot);

  // Whether somebody waits for its end, and the device has not been asked for a notice of it.
  bool WantsNotice(const Entry& entry) const {
    return entry.state == State::kInFlight && !entry.noticed && (entry.awaited || waiting_ > 0);
  }
  static bool Suits(const Entry& entry, std::optional<int> device) {
    return !device.has_value() || entry.slot->device() == *device;
  }
  Entry& EntryOf(const kernels::Slot* slot);
  bool HasFree(std::optional<int> device) const;
  // A free slot that is suitable. If others wait for it, only the holder whose turn it is gets it.
  Entry* FindFree(std::optional<int> device, bool has_turn);
  bool IsWaitedFor(const Entry& entry) const;
  void RevokeLoan(std::optional<int> device);
  // Who gets the free slots; none if nobody waits for one of them.
  std::optional<Turn> FindTurn() const;
  void Queue(Holder& holder, std::optional<int> device);
  void ForgetIfGone(Parties::iterator party);

  DeviceHealth* const device_;
  DeviceCalls device_calls_;
  std::vector<Entry> entries_;
  int devices_ = 0;
  Parties parties_;
  std::size_t waiting_ = 0;         // of all parties
  std::uint64_t given_out_ = 0;     // slots given out and parties that came, since the start
  const Holder* served_ = nullptr;  // has its turn: the next Take of this one does not queue
  bool has_worked_ = false;         // this thread has worked, within Start
};

// The slots of a shard, for one party.
struct PartySlots {
  PartySlots(SlotPool& pool_in,  // NOLINT: a pool is one for nobody in particular
             std::string party_in = "")
      : pool(pool_in), party(std::move(party_in)) {}
  SlotPool& pool;
  std::string party;
};

}  // namespace warpfold::server
