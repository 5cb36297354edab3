// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/slots/segment_reducer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "server/core/limits.h"

namespace warpfold::server {
namespace {

// How many long segments are reduced at once: enough that the next one's bytes need not wait for the last
// one's results.
constexpr std::ptrdiff_t kMaxLongs = 4;

// To a device's deadline, a segment of a few bytes counts for what it costs beside them.
constexpr std::uint64_t kBytesPerSegment = 64;

void AddTime(std::optional<absl::Duration> time, std::optional<absl::Duration>* sum) {
  if (time.has_value()) *sum = sum->value_or(absl::ZeroDuration()) + *time;
}

}  // namespace

SegmentReducer::SegmentReducer(const PartySlots& slots, const Clock& clock,
                               const kernels::ReductionPlan& reduction,
                               std::optional<std::uint64_t> segment_length, std::function<void()> listener,
                               std::optional<ResultsMemory> memory)
    : Holder(slots.party),
      pool_(slots.pool),
      clock_(clock),
      listener_(std::move(listener)),
      cursor_(segment_length),
      reduction_(reduction),
      results_(reduction, !segment_length.has_value()),
      memory_(std::move(memory)) {
  messages_.push_back(results_.Layout());
  message_bytes_ = messages_.back().size();
}

std::string SegmentReducer::TakeMessage() {
  std::string message = std::move(messages_.front());
  messages_.pop_front();
  message_bytes_ -= message.size();
  return message;
}

void SegmentReducer::Release() {
  pool_.Leave(*this);
  for (Pending& pending : pending_) {
    // It is not destroyed: this may be its own call of its listener.
    if (pending.reducer != nullptr) pending.reducer->Release();
    pending.messages = {};
  }
  messages_.clear();
  memory_.reset();
  cursor_.Forget();
}

std::uint64_t SegmentReducer::MostBytesOfSegment() const {
  return results_.most_bytes_of_segment() - (goes_to_memory() ? row_bytes() : 0);
}

bool SegmentReducer::HasRoom() const {
  // The most that a start may have (MostSegments).
  const std::uint64_t next = MostBytesOfSegment() > 0 ? pool_.slot_bytes() / kernels::kSegmentResultShare : 0;
  const bool fits = message_bytes_ + next <= WaitingResultBytes(pool_.slot_bytes());
  return fits && std::count_if(pending_.begin(), pending_.end(),
                               [](const Pending& p) { return p.reducer != nullptr && !p.done; }) < kMaxLongs;
}

bool SegmentReducer::AwaitRoom() {
  if (HasRoom()) return true;
  // Another call's slot reports its end by itself; what this reducer has started is waited for.
  pool_.AwaitFinish(*this);
  return false;
}

std::uint64_t SegmentReducer::MostSegments(std::uint64_t capacity) const {
  const std::uint64_t of_segment = MostBytesOfSegment();
  if (of_segment == 0) return capacity;
  const std::uint64_t bytes = pool_.slot_bytes() / kernels::kSegmentResultShare;
  return std::min(std::max<std::uint64_t>(bytes / of_segment, 1), capacity);
}

kernels::Slot* SegmentReducer::TakeSlot(std::optional<int> device) {
  if (!AwaitRoom()) return nullptr;
  return taker_.Take(pool_, *this, device, clock_);
}

ReducerTimings SegmentReducer::timings() const {
  ReducerTimings timings = timings_;
  AddTime(taker_.Waited(clock_), &timings.queue);
  return timings;
}

SegmentReducer::Cut SegmentReducer::CutOf(std::uint64_t segment_count,
                                          std::vector<std::uint64_t> lengths) const {
  Cut made = {.cut = {.segment_count = segment_count}};
  if (slots_write_memory()) made.cut.results = memory_->ColumnsOf(started_segments_, segment_count);
  if (cursor_.length().has_value()) {
    made.cut.length = *cursor_.length();
    return made;
  }
  auto owner = std::make_shared<const std::vector<std::uint64_t>>(std::move(lengths));
  made.cut.lengths = *owner;
  made.owner = std::move(owner);
  return made;
}

absl::Status SegmentReducer::Started(kernels::Slot* slot, const Cut& cut, absl::Status status,
                                     DeviceWork work) {
  work.segments = true;
  const std::uint64_t bytes =
      cut.cut.ElementCount() * reduction().element_bytes() + cut.cut.segment_count * kBytesPerSegment;
  work.bytes = bytes * reduction().spec().operators.size();
  // The device may read lengths, and write results, until it is done, whatever happens to the call.
  using Owners = std::array<std::shared_ptr<const void>, 3>;
  work.memory = std::make_shared<const Owners>(
      Owners{std::move(work.memory), cut.owner, memory_.has_value() ? memory_->owner() : nullptr});
  if (absl::Status started = pool_.Started(*this, slot, std::move(status), work); !started.ok()) {
    return started;
  }
  const std::uint64_t result_bytes = cut.cut.segment_count * MostBytesOfSegment();
  pending_.push_back({.first_segment = started_segments_, .slot = slot, .result_bytes = result_bytes});
  message_bytes_ += result_bytes;
  started_segments_ += cut.cut.segment_count;
  const auto result = pool_.CollectSegmentsAtOnce(slot);
  if (!result.has_value()) return absl::OkStatus();
  if (!result->ok()) return result->status();
  Take(pending_.back(), **result);
  return absl::OkStatus();
}

void SegmentReducer::Take(Pending& pending, const kernels::SegmentsResult& result) {
  pending.slot = nullptr;
  message_bytes_ -= pending.result_bytes;
  timings_.copy += result.copy;
  timings_.kernel += result.kernel;
  error_count_ += result.errors.size();
  WriteToMemory(pending.first_segment, result);
  End(pending, results_.Encode(pending.first_segment, result, /*has_values=*/!goes_to_memory()));
}

void SegmentReducer::WriteToMemory(std::uint64_t first_segment, const kernels::SegmentsResult& result) {
  if (!goes_to_memory()) return;
  std::optional<DeviceCalls::Scope> call;
  if (device_of_results().has_value()) call.emplace(pool_.device_calls());
  status_.Update(memory_->Write(first_segment, result));
}

void SegmentReducer::End(Pending& pending, std::vector<std::string> messages) {
  for (const std::string& message : messages) message_bytes_ += message.size();
  pending.messages = std::move(messages);
  pending.done = true;
  // Slots finish in any order, but results are sent in the order of the segments.
  while (!pending_.empty() && pending_.front().done) {
    for (std::string& message : pending_.front().messages) messages_.push_back(std::move(message));
    pending_.pop_front();
  }
}

void SegmentReducer::AddLong(std::unique_ptr<SlotReducer> reducer) {
  pending_.push_back({.first_segment = started_segments_++, .reducer = std::move(reducer)});
}

void SegmentReducer::FinishLongs() {
  if (!long_calls_) finished_.clear();
  for (std::size_t i = 0; i < pending_.size();) {
    Pending& pending = pending_[i];
    if (pending.reducer == nullptr || pending.done || !pending.has_all_bytes) {
      ++i;
      continue;
    }
    const absl::StatusOr<bool> finished = pending.reducer->TryFinish();
    status_.Update(finished.status());
    if (!status_.ok()) return;
    if (!*finished) {
      ++i;
      continue;
    }
    const std::size_t before = pending_.size();
    FinishLong(pending);
    // Those at the front that were done have been removed. This one is now among them, or is the next to be
    // visited.
    i -= std::min(i, before - pending_.size());
  }
}

void SegmentReducer::FinishLong(Pending& pending) {
  const ReducerTimings timings = pending.reducer->timings();
  AddTime(timings.queue, &timings_.queue);
  timings_.copy += timings.copy;
  timings_.kernel += timings.kernel;
  const kernels::SegmentRow row = results_.RowOf(pending.reducer->state());
  error_count_ += row.errors.size();
  WriteToMemory(pending.first_segment, {.segment_count = 1, .values = row.values});
  std::vector<std::string> message = {
      results_.Encode(pending.first_segment, row, /*has_values=*/!goes_to_memory())};
  pending.reducer->Release();  // not destroyed: see finished_
  finished_.push_back(std::move(pending.reducer));
  End(pending, std::move(message));
}

void SegmentReducer::OnLongProgress() {
  if (!long_calls_) finished_.clear();
  const bool is_nested = std::exchange(long_calls_, true);
  for (const Pending& pending : pending_) {
    if (pending.reducer != nullptr) status_.Update(pending.reducer->status());
  }
  if (status_.ok()) FinishLongs();
  listener_();
  long_calls_ = is_nested;
}

bool SegmentReducer::AllCollected() {
  FinishLongs();
  if (!pending_.empty()) pool_.AwaitFinish(*this);
  return pending_.empty();
}

void SegmentReducer::OnSegmentsFinished(kernels::Slot* slot,
                                        const absl::StatusOr<kernels::SegmentsResult>& result) {
  const auto started =
      std::find_if(pending_.begin(), pending_.end(), [slot](const Pending& p) { return p.slot == slot; });
  if (result.ok()) {
    Take(*started, *result);
  } else {
    status_.Update(result.status());
  }
  listener_();
}

}  // namespace warpfold::server
