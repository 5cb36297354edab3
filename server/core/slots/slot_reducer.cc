// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/slots/slot_reducer.h"

#include <algorithm>
#include <utility>

namespace warpfold::server {
namespace {

// To a device's deadline, a byte counts for as many if an algorithm is named: the textbook's kernels may keep
// one multiprocessor busy and leave the others idle, and not all of them have been measured.
constexpr std::uint64_t kBytesPerTextbookByte = 50;

}  // namespace

SlotReducer::SlotReducer(const PartySlots& slots, const Clock& clock, const kernels::ReductionPlan& reduction,
                         std::uint64_t first_element, std::function<void()> listener)
    : Holder(slots.party),
      pool_(slots.pool),
      clock_(clock),
      listener_(std::move(listener)),
      state_(reduction, first_element),
      next_element_(first_element) {}

void SlotReducer::Release() {
  pool_.Leave(*this);
  started_.clear();
  // With large matrices it is half a megabyte, and a client may take a long time to read the answer.
  state_ = kernels::PartialState(state_.reduction(), state_.first_element());
}

kernels::Slot* TimedTaker::Take(SlotPool& pool, SlotPool::Holder& holder, std::optional<int> device,
                                const Clock& clock) {
  kernels::Slot* const slot = pool.Take(holder, device);
  if (!waited_.has_value()) waited_ = absl::ZeroDuration();
  if (slot == nullptr) {
    if (!waiting_since_.has_value()) waiting_since_ = clock();
  } else if (waiting_since_.has_value()) {
    *waited_ += clock() - *std::exchange(waiting_since_, std::nullopt);
  }
  return slot;
}

std::optional<absl::Duration> TimedTaker::Waited(const Clock& clock) const {
  return waiting_since_.has_value() ? *waited_ + (clock() - *waiting_since_) : waited_;
}

ReducerTimings SlotReducer::timings() const {
  ReducerTimings timings = timings_;
  timings.queue = taker_.Waited(clock_);
  return timings;
}

kernels::Slot* SlotReducer::TakeSlot(std::optional<int> device) {
  return taker_.Take(pool_, *this, device, clock_);
}

absl::Status SlotReducer::Started(kernels::Slot* slot, std::uint64_t elements, absl::Status status,
                                  DeviceWork work) {
  work.bytes = elements * reduction().element_bytes() * reduction().spec().operators.size();
  if (!reduction().canonical()) work.bytes *= kBytesPerTextbookByte;
  if (absl::Status started = pool_.Started(*this, slot, std::move(status), work); !started.ok()) {
    return started;
  }
  next_element_ += elements;
  started_.push_back({.slot = slot, .result = std::nullopt});
  std::optional<absl::StatusOr<kernels::SlotResult>> result = pool_.CollectAtOnce(slot);
  if (!result.has_value()) return absl::OkStatus();
  if (!result->ok()) return result->status();
  started_.back().result = **std::move(result);
  return CollectFinished();
}

bool SlotReducer::AllCollected() {
  if (!started_.empty()) pool_.AwaitFinish(*this);
  return started_.empty();
}

void SlotReducer::ReduceHere(std::span<const std::byte> data) {
  const absl::Time start = clock_();
  status_ = state_.Append(kernels::ReduceOnHost(reduction(), next_element_, data));
  next_element_ += data.size() / reduction().element_bytes();
  timings_.kernel += clock_() - start;
}

// Slots finish in any order, but their ranges are adjacent only in the order of their starts.
absl::Status SlotReducer::CollectFinished() {
  while (!started_.empty() && started_.front().result.has_value()) {
    const kernels::SlotResult result = *std::move(started_.front().result);
    started_.pop_front();
    timings_.copy += result.copy;
    timings_.kernel += result.kernel;
    if (absl::Status status = state_.Append(*result.state); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void SlotReducer::OnSlotWanted() {
  status_.Update(StartLent());
  if (!status_.ok()) listener_();
}

void SlotReducer::OnSlotFinished(kernels::Slot* slot, absl::StatusOr<kernels::SlotResult> result) {
  const auto started = std::find_if(started_.begin(), started_.end(), [slot](const InFlight& s) {
    return s.slot == slot && !s.result.has_value();
  });
  if (result.ok()) {
    started->result = *std::move(result);
    status_.Update(CollectFinished());
  } else {
    status_.Update(result.status());
  }
  if (!status_.ok() || started_.empty()) listener_();
}

}  // namespace warpfold::server
