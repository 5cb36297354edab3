// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Does for a Session what Call does: resumes it from its listener, and gives back what it holds at its end.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/calls/plan_cache.h"
#include "server/core/calls/service.h"
#include "server/core/calls/session.h"
#include "server/core/slots/slot_share.h"
#include "server/core/wire/message.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold::server {

// Threads: one.
class SessionDriver {
 public:
  SessionDriver(const Service& service, SlotShare& share)
      : share_(share), session_(service, share, [this] { OnProgress(); }) {}

  void OnMessage(Message message) { Follow(session_.OnMessage(std::move(message))); }
  void OnArray(Message message, PlanCache& plans) { Follow(session_.OnArray(std::move(message), plans)); }
  void OnEnd() { Follow(session_.OnEnd()); }

  // For a device that finishes by itself.
  void AwaitDevice() {
    while (need_ == Session::Need::kDevice) share_.Poll();
  }

  Session& session() { return session_; }
  // What it needs next; meaningless once it has ended.
  Session::Need need() const { return need_; }
  bool ended() const { return result_.has_value(); }
  const absl::StatusOr<v1::Reduction>& result() const { return *result_; }

 private:
  void OnProgress() {
    if (!ended()) Follow(session_.Resume());
  }
  void Follow(const absl::StatusOr<Session::Need>& need) {
    need_ = need.value_or(Session::Need::kNothing);
    if (need_ != Session::Need::kNothing) return;
    result_ = need.ok() ? session_.Result() : absl::StatusOr<v1::Reduction>(need.status());
    session_.Release();
  }

  SlotShare& share_;
  Session session_;
  Session::Need need_ = Session::Need::kMessage;
  std::optional<absl::StatusOr<v1::Reduction>> result_;
};

// Sends the messages until one fails, then ends the stream. Calls `between` after each that did not.
inline absl::StatusOr<v1::Reduction> DriveSession(
    const Service& service, SlotShare& share, const std::vector<Message>& messages,
    const std::function<void()>& between = [] {}) {
  SessionDriver driver(service, share);
  for (const Message& message : messages) {
    driver.OnMessage(message);
    driver.AwaitDevice();
    if (driver.ended()) return driver.result();
    between();
    if (driver.ended()) return driver.result();
  }
  driver.OnEnd();
  driver.AwaitDevice();
  return driver.result();
}

// A whole array in one message, by the method ReduceArray. As on a shard, calls share the plans.
inline absl::StatusOr<v1::Reduction> DriveArray(const Service& service, SlotShare& share, Message message) {
  static PlanCache plans;
  SessionDriver driver(service, share);
  driver.OnArray(std::move(message), plans);
  driver.AwaitDevice();
  return driver.result();
}

// The backend's slots, as a share takes them.
inline std::vector<kernels::Slot*> SlotsOf(kernels::Backend& backend) {
  std::vector<kernels::Slot*> slots;
  for (const auto& slot : backend.slots()) slots.push_back(slot.get());
  return slots;
}

// Takes slots and keeps count of what it hears.
class CountingHolder : public SlotShare::Holder {
 public:
  using Holder::Holder;
  std::function<void()> on_free = [] {};
  std::function<void()> on_wanted = [] {};
  int frees = 0;
  int wanted = 0;
  std::vector<std::pair<kernels::Slot*, absl::Status>> finished;

 private:
  void OnSlotFree() override {
    ++frees;
    on_free();
  }
  void OnSlotWanted() override {
    ++wanted;
    on_wanted();
  }
  void OnSlotFinished(kernels::Slot* slot, absl::StatusOr<kernels::SlotResult> result) override {
    finished.emplace_back(slot, result.status());
  }
};

// As another call that needs all slots for a moment: whoever keeps one for its client must start it.
inline void CallInLoans(SlotShare& share) {
  CountingHolder other;
  std::vector<kernels::Slot*> taken;
  while (kernels::Slot* const slot = share.Take(other)) taken.push_back(slot);
  for (kernels::Slot* const slot : taken) share.Return(slot);
  share.Leave(other);
}

}  // namespace warpfold::server
