// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/references/results_memory.h"

#include <algorithm>
#include <utility>

namespace warpfold::server {
namespace {

// The header's number of segments is checked against what comes; this is for a mistake in that.
absl::Status TooMany() { return absl::InternalError("more segments than there is memory for"); }

}  // namespace

std::optional<ResultsMemory> ResultsMemory::Take(std::shared_ptr<const NamedMemory> memory,
                                                 std::uint64_t byte_offset, std::size_t row_bytes,
                                                 std::uint64_t segment_count) {
  // Without segments nothing is written, and what lies there may be another call's.
  std::optional<std::uint64_t> begin;
  if (segment_count > 0) {
    if (!memory->BeginWriting(byte_offset, byte_offset + row_bytes * segment_count)) return std::nullopt;
    begin = byte_offset;
  }
  ResultsMemory taken;
  taken.values_ = reinterpret_cast<std::uint64_t*>(memory->writable().data() + byte_offset);
  taken.segment_count_ = segment_count;
  taken.place_ = std::make_shared<const Place>(std::move(memory), begin);
  return taken;
}

kernels::ResultColumns ResultsMemory::ColumnsOf(std::uint64_t first, std::uint64_t count) const {
  if (first > segment_count_ || count > segment_count_ - first) return {};
  return {.values = values_ + first, .stride = segment_count_, .device = device()};
}

absl::Status ResultsMemory::Write(std::uint64_t first, const kernels::SegmentsResult& result) const {
  if (result.values.empty()) return absl::OkStatus();
  const kernels::ResultColumns to = ColumnsOf(first, result.segment_count);
  if (to.values == nullptr) return TooMany();
  absl::Status status;
  for (std::size_t column = 0; column * result.segment_count < result.values.size(); ++column) {
    status.Update(Put(to.values + column * to.stride, result.Column(column)));
  }
  return status;
}

absl::Status ResultsMemory::Put(std::uint64_t* to, std::span<const std::uint64_t> values) const {
  if (device().has_value()) {
    const auto byte_offset = static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(to) - memory().data());
    return memory().Write(byte_offset, std::as_bytes(values));
  }
  std::ranges::copy(values, to);
  return absl::OkStatus();
}

}  // namespace warpfold::server
