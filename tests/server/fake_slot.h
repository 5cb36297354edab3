// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A slot without a device. It finishes within Start, or when a test says so, and fails if the test says so.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/segment_row.h"
#include "tests/server/fake_behaviour.h"

namespace warpfold::server {

class FakeSlot : public kernels::Slot {
 public:
  FakeSlot(FakeBehaviour& behaviour, std::size_t bytes, int device)
      : behaviour_(behaviour), staging_(bytes), device_(device) {}

  int device() const override { return device_; }
  bool EndsInStart() const override { return behaviour_.ends_in_start; }
  absl::Duration MostTimePerByte() const override { return behaviour_.most_time_per_byte; }
  std::span<std::byte> staging() override { return staging_; }

  void WorkFor(std::uint64_t group) override { group_ = group; }
  std::uint64_t group() const { return group_; }
  void NotifyBy(std::function<void()> on_finished) override { job_.on_finished = std::move(on_finished); }
  void Notify() override { behaviour_.Notify(job_); }

  std::uint64_t Capacity(const kernels::ReductionPlan& reduction) const override {
    return staging_.size() / reduction.leaf_bytes() * reduction.leaf_elements();
  }

  absl::Status Start(const kernels::ReductionPlan& reduction, std::uint64_t first_element,
                     std::uint64_t element_count) override {
    if (element_count == 0 || element_count > Capacity(reduction)) ++behaviour_.misuses;
    return Begin({reduction, first_element, element_count, staging_.data(), nullptr, {}});
  }

  absl::Status StartPieces(const kernels::ReductionPlan& reduction, std::uint64_t first_element,
                           std::uint64_t element_count, std::span<const kernels::HostPiece> pieces) override {
    if (element_count == 0 || element_count > Capacity(reduction)) ++behaviour_.misuses;
    return Begin({.reduction = reduction,
                  .first_element = first_element,
                  .count = element_count,
                  .from = nullptr,
                  .to = nullptr,
                  .pieces = Taken(pieces, element_count * reduction.element_bytes())});
  }

  bool Reads(kernels::HostPiece bytes) const override {
    return !behaviour_.piece_memory.empty() && IsIn(bytes, behaviour_.piece_memory);
  }
  bool KeepsPieces() const override { return behaviour_.keeps_pieces && !behaviour_.piece_memory.empty(); }

  // Twice what staging() holds, so that tests see the difference.
  std::uint64_t CapacityFrom(const kernels::ReductionPlan& reduction, const kernels::Memory&,
                             std::uint64_t) const override {
    return 2 * Capacity(reduction);
  }

  absl::Status StartFrom(const kernels::ReductionPlan& reduction, std::uint64_t first_element,
                         std::uint64_t element_count, const kernels::Memory& memory,
                         std::uint64_t byte_offset) override {
    const std::uint64_t bytes = element_count * reduction.element_bytes();
    if (element_count == 0 || element_count > CapacityFrom(reduction, memory, byte_offset) ||
        byte_offset + bytes > memory.size()) {
      ++behaviour_.misuses;
    }
    if (absl::Status status = CheckDevice(memory); !status.ok()) return status;
    return Begin({reduction, first_element, element_count, memory.data() + byte_offset, nullptr, {}});
  }

  absl::Status StartAcross(const kernels::ReductionPlan& reduction, std::uint64_t first_element,
                           std::uint64_t element_count, std::span<const kernels::MemoryPart> parts) override {
    Work work = {.reduction = reduction,
                 .first_element = first_element,
                 .count = element_count,
                 .from = nullptr,
                 .to = nullptr};
    std::uint64_t bytes = 0;
    for (const kernels::MemoryPart& part : parts) {
      if (part.byte_offset + part.byte_count > part.memory->size()) ++behaviour_.misuses;
      work.pieces.emplace_back(part.memory->data() + part.byte_offset, part.byte_count);
      bytes += part.byte_count;
    }
    if (element_count == 0 || element_count > Capacity(reduction) || parts.size() < 2 ||
        bytes != element_count * reduction.element_bytes()) {
      ++behaviour_.misuses;
    }
    ++behaviour_.starts_across;
    return Begin(std::move(work));
  }

  absl::Status StartStore(const kernels::Memory& memory, std::uint64_t byte_offset,
                          std::uint64_t byte_count) override {
    if (byte_count == 0 || byte_count > staging_.size() || byte_offset + byte_count > memory.size()) {
      ++behaviour_.misuses;
    }
    if (absl::Status status = CheckDevice(memory); !status.ok()) return status;
    std::byte* const to = const_cast<std::byte*>(memory.data()) + byte_offset;
    return Begin({std::nullopt, 0, byte_count, staging_.data(), to, {}});
  }

  absl::Status StartStorePieces(const kernels::Memory& memory, std::uint64_t byte_offset,
                                std::span<const kernels::HostPiece> pieces) override {
    const std::uint64_t bytes = SizeOf(pieces);
    if (bytes == 0 || bytes > staging_.size() || byte_offset + bytes > memory.size()) ++behaviour_.misuses;
    if (absl::Status status = CheckDevice(memory); !status.ok()) return status;
    return Begin({.reduction = std::nullopt,
                  .first_element = 0,
                  .count = bytes,
                  .from = nullptr,
                  .to = const_cast<std::byte*>(memory.data()) + byte_offset,
                  .pieces = Taken(pieces, bytes)});
  }

  bool Finished() override {
    if (!work_.has_value()) ++behaviour_.misuses;
    return behaviour_.HasEnded(job_);
  }

  // Reads the elements only now: if anybody has touched them since Start, the result is wrong.
  absl::StatusOr<kernels::SlotResult> Wait() override {
    if (!work_.has_value() || work_->cut.has_value()) ++behaviour_.misuses;
    if (absl::Status status = Await(); !status.ok()) return status;
    Work work = *std::exchange(work_, std::nullopt);
    kernels::SlotResult result = {.state = {}, .copy = absl::Nanoseconds(1), .kernel = absl::Nanoseconds(2)};
    std::vector<std::byte> data = BytesOf(work);
    if (work.to != nullptr) {
      std::copy(data.begin(), data.end(), work.to);
      return result;
    }
    if (behaviour_.wrong_results) data.back() ^= std::byte{1};
    result.state = kernels::ReduceOnHost(*work.reduction, work.first_element, data);
    return result;
  }

  // Few enough for tests to see the limit.
  std::uint64_t SegmentCapacity(const kernels::ReductionPlan&) const override {
    return behaviour_.segment_capacity;
  }
  std::uint64_t SegmentCapacityFrom(const kernels::ReductionPlan&, const kernels::Memory&,
                                    std::uint64_t) const override {
    return 2 * behaviour_.segment_capacity;
  }
  absl::Status StartSegments(const kernels::ReductionPlan& reduction,
                             const kernels::SegmentCut& cut) override {
    if (cut.ElementCount() * reduction.element_bytes() > staging_.size()) ++behaviour_.misuses;
    return BeginSegments(reduction, cut, staging_.data());
  }
  absl::Status StartSegmentPieces(const kernels::ReductionPlan& reduction, const kernels::SegmentCut& cut,
                                  std::span<const kernels::HostPiece> pieces) override {
    const std::uint64_t bytes = cut.ElementCount() * reduction.element_bytes();
    if (bytes > staging_.size()) ++behaviour_.misuses;
    return BeginSegments(reduction, cut, nullptr, Taken(pieces, bytes));
  }
  absl::Status StartSegmentsFrom(const kernels::ReductionPlan& reduction, const kernels::SegmentCut& cut,
                                 const kernels::Memory& memory, std::uint64_t byte_offset) override {
    if (cut.ElementCount() > CapacityFrom(reduction, memory, byte_offset) ||
        byte_offset + cut.ElementCount() * reduction.element_bytes() > memory.size()) {
      ++behaviour_.misuses;
    }
    if (absl::Status status = CheckDevice(memory); !status.ok()) return status;
    const bool has_room = cut.results.values != nullptr && cut.lengths.empty();
    return BeginSegments(reduction, cut, memory.data() + byte_offset, {}, has_room ? 2 : 1);
  }

  absl::StatusOr<kernels::SegmentsResult> WaitSegments() override {
    if (!work_.has_value() || !work_->cut.has_value()) ++behaviour_.misuses;
    if (absl::Status status = Await(); !status.ok()) return status;
    const Work work = *std::exchange(work_, std::nullopt);
    const kernels::SegmentLayout layout(*work.reduction);
    kernels::SegmentsResult result = {.segment_count = work.cut->segment_count,
                                      .copy = absl::Nanoseconds(1),
                                      .kernel = absl::Nanoseconds(2)};
    values_.assign(layout.columns().size() * result.segment_count, 0);
    const std::vector<std::byte> data = BytesOf(work);
    const std::byte* from = data.data();
    for (std::uint64_t segment = 0; segment < result.segment_count; ++segment) {
      const std::uint64_t bytes = work.cut->LengthOf(segment) * work.reduction->element_bytes();
      const kernels::SegmentRow row =
          kernels::RowOfSegment(layout, kernels::ReduceOnHost(*work.reduction, 0, std::span(from, bytes)));
      from += bytes;
      for (std::size_t column = 0; column < row.values.size(); ++column) {
        values_[column * result.segment_count + segment] = row.values[column];
      }
      for (const kernels::SegmentError& error : row.errors) {
        result.errors.push_back({segment, error.op, error.error});
      }
    }
    const kernels::ResultColumns& to = work.cut->results;
    if (to.values == nullptr || !behaviour_.writes_results) {
      result.values = values_;
      return result;
    }
    for (std::size_t column = 0; column < layout.columns().size(); ++column) {
      std::copy_n(values_.begin() + static_cast<std::ptrdiff_t>(column * result.segment_count),
                  result.segment_count, to.values + column * to.stride);
    }
    return result;
  }

 private:
  struct Work {
    std::optional<kernels::ReductionPlan> reduction;  // none for a store
    std::uint64_t first_element;
    std::uint64_t count;  // of elements, or bytes of a store
    const std::byte* from;
    std::byte* to;                                          // of a store
    std::optional<kernels::SegmentCut> cut = std::nullopt;  // of segments
    std::vector<kernels::HostPiece> pieces = {};            // instead of `from`
  };

  static bool IsIn(kernels::HostPiece piece, std::span<const std::byte> memory) {
    constexpr std::less_equal<> kNotAfter;
    return kNotAfter(memory.data(), piece.data()) &&
           kNotAfter(piece.data() + piece.size(), memory.data() + memory.size());
  }

  static std::uint64_t SizeOf(std::span<const kernels::HostPiece> pieces) {
    std::uint64_t bytes = 0;
    for (const kernels::HostPiece piece : pieces) bytes += piece.size();
    return bytes;
  }

  // The pieces, which have `bytes` bytes, or the copies that are kept of them.
  std::vector<kernels::HostPiece> Taken(std::span<const kernels::HostPiece> pieces, std::uint64_t bytes) {
    const std::span<std::byte> staged = staging();
    std::uint64_t offset = 0;
    for (const kernels::HostPiece piece : pieces) {
      const bool has_its_place = IsIn(piece, staged) && piece.data() == staged.data() + offset;
      if (piece.empty() || !(has_its_place || Reads(piece))) ++behaviour_.misuses;
      offset += piece.size();
    }
    if (pieces.empty() || pieces.size() > kMaxPieces || SizeOf(pieces) != bytes) ++behaviour_.misuses;
    ++behaviour_.piece_starts;
    behaviour_.pieces += pieces.size();
    if (KeepsPieces()) return {pieces.begin(), pieces.end()};
    std::byte* to = staged.data();
    for (const kernels::HostPiece piece : pieces) {
      std::memmove(to, piece.data(), piece.size());
      to += piece.size();
    }
    return {staged.first(bytes)};
  }

  static std::vector<std::byte> BytesOf(const Work& work) {
    std::vector<std::byte> bytes;
    for (const kernels::HostPiece piece : work.pieces) bytes.insert(bytes.end(), piece.begin(), piece.end());
    const std::uint64_t element_bytes = work.reduction.has_value() ? work.reduction->element_bytes() : 1;
    if (work.pieces.empty()) bytes.assign(work.from, work.from + work.count * element_bytes);
    return bytes;
  }

  // A device reads its own memory, and the host's.
  absl::Status CheckDevice(const kernels::Memory& memory) {
    if (memory.device().value_or(device_) == device_) return absl::OkStatus();
    ++behaviour_.misuses;
    return absl::InternalError("a slot of one device was started on memory of another");
  }

  absl::Status Await() {
    absl::Status status = behaviour_.Await(job_);
    if (!status.ok()) work_.reset();
    return status;
  }

  absl::Status BeginSegments(const kernels::ReductionPlan& reduction, const kernels::SegmentCut& cut,
                             const std::byte* from, std::vector<kernels::HostPiece> pieces = {},
                             std::uint64_t capacities = 1) {
    if (cut.segment_count == 0 || cut.segment_count > capacities * SegmentCapacity(reduction)) {
      ++behaviour_.misuses;
    }
    return Begin({reduction, 0, cut.ElementCount(), from, nullptr, cut, std::move(pieces)});
  }

  absl::Status Begin(Work work) {
    if (work_.has_value()) ++behaviour_.misuses;
    while (behaviour_.stuck) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (behaviour_.fail_start || behaviour_.lost_device == device_) return DeviceLost();
    ++behaviour_.starts;
    if (behaviour_.on_start && work.reduction.has_value()) {
      behaviour_.on_start(*work.reduction, work.cut.has_value());
    }
    behaviour_.elements += work.count;
    work_.emplace(std::move(work));
    behaviour_.Begin(job_);
    return absl::OkStatus();
  }

  FakeBehaviour& behaviour_;
  std::vector<std::byte> staging_;
  const int device_;
  std::vector<std::uint64_t> values_;  // of segments
  std::uint64_t group_ = 0;
  std::optional<Work> work_;  // the work that was started
  FakeBehaviour::Job job_;    // its end
};

}  // namespace warpfold::server
