// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Does for a ReduceSession what Call does: resumes it when its listener is called, and gives back what it
// holds at its end.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/calls/plan_cache.h"
#include "server/core/calls/reduce_session.h"
#include "server/core/calls/service.h"
#include "server/core/slots/slot_pool.h"
#include "server/core/wire/message.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold::server {

// Threads: one.
class SessionDriver {
 public:
  SessionDriver(const Service& service, SlotPool& pool)
      : pool_(pool), session_(service, pool, [this] { OnProgress(); }) {}

  void OnMessage(Message message) { Follow(session_.OnMessage(std::move(message))); }
  void OnArray(Message message, PlanCache& plans) { Follow(session_.OnArray(std::move(message), plans)); }
  void OnEnd() { Follow(session_.OnEnd()); }

  // For a device that finishes by itself.
  void AwaitDevice() {
    while (need_ == ReduceSession::Need::kDevice) pool_.Poll();
  }

  ReduceSession& session() { return session_; }
  // What it needs next; meaningless once it has ended.
  ReduceSession::Need need() const { return need_; }
  bool ended() const { return result_.has_value(); }
  const absl::StatusOr<v1::Reduction>& result() const { return *result_; }

 private:
  void OnProgress() {
    if (!ended()) Follow(session_.Resume());
  }
  void Follow(const absl::StatusOr<ReduceSession::Need>& need) {
    need_ = need.value_or(ReduceSession::Need::kNothing);
    if (need_ != ReduceSession::Need::kNothing) return;
    result_ = need.ok() ? ResultOf(session_.Response()) : need.status();
    session_.Release();
  }
  static absl::StatusOr<v1::Reduction> ResultOf(const absl::StatusOr<std::string>& answer) {
    if (!answer.ok()) return answer.status();
    v1::ReduceResponse response;
    if (!response.ParseFromString(*answer)) return absl::InternalError("an answer without its form");
    return std::move(*response.mutable_reduction());
  }

  SlotPool& pool_;
  ReduceSession session_;
  ReduceSession::Need need_ = ReduceSession::Need::kMessage;
  std::optional<absl::StatusOr<v1::Reduction>> result_;
};

// Sends the messages until one fails, then ends the stream. Calls `between` after each that did not fail.
inline absl::StatusOr<v1::Reduction> DriveSession(
    const Service& service, SlotPool& pool, const std::vector<Message>& messages,
    const std::function<void()>& between = [] {}) {
  SessionDriver driver(service, pool);
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

// A whole array in one message, with the method ReduceArray. Calls share the plans, as on a shard.
inline absl::StatusOr<v1::Reduction> DriveArray(const Service& service, SlotPool& pool, Message message) {
  static PlanCache plans;
  SessionDriver driver(service, pool);
  driver.OnArray(std::move(message), plans);
  driver.AwaitDevice();
  return driver.result();
}

// The backend's slots, as a pool takes them.
inline std::vector<kernels::Slot*> SlotsOf(kernels::Backend& backend) {
  std::vector<kernels::Slot*> slots;
  for (const auto& slot : backend.slots()) slots.push_back(slot.get());
  return slots;
}

// Takes slots and counts the notifications that it receives.
class CountingHolder : public SlotPool::Holder {
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

// Acts like another call that needs all slots for a moment: whoever keeps one for its client must start it.
inline void RevokeLoans(SlotPool& pool) {
  CountingHolder other;
  std::vector<kernels::Slot*> taken;
  while (kernels::Slot* const slot = pool.Take(other)) taken.push_back(slot);
  for (kernels::Slot* const slot : taken) pool.Return(slot);
  pool.Leave(other);
}

}  // namespace warpfold::server
