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

ResultsMemory::ResultsMemory(std::shared_ptr<const NamedMemory> memory, std::uint64_t byte_offset,
                             std::uint64_t segment_count)
    : writer_(std::make_shared<Writer>(std::move(memory))),
      values_(reinterpret_cast<std::uint64_t*>(writer_->memory->writable().data() + byte_offset)),
      segment_count_(segment_count) {}

void ResultsMemory::EndEarly() {
  writer_->memory->AddLateWriter(1);
  writer_->is_late = true;
}

kernels::ResultColumns ResultsMemory::ColumnsOf(std::uint64_t first, std::uint64_t count) const {
  if (first > segment_count_ || count > segment_count_ - first) return {};
  return {.values = values_ + first, .stride = segment_count_};
}

absl::Status ResultsMemory::Write(std::uint64_t first, const kernels::SegmentsResult& result) const {
  if (result.values.empty()) return absl::OkStatus();
  const kernels::ResultColumns to = ColumnsOf(first, result.segment_count);
  if (to.values == nullptr) return TooMany();
  for (std::size_t column = 0; column * result.segment_count < result.values.size(); ++column) {
    std::ranges::copy(result.Column(column), to.values + column * to.stride);
  }
  return absl::OkStatus();
}

absl::Status ResultsMemory::WriteRow(std::uint64_t segment, std::span<const std::uint64_t> row) const {
  const kernels::ResultColumns to = ColumnsOf(segment, 1);
  if (to.values == nullptr) return TooMany();
  for (std::size_t column = 0; column < row.size(); ++column) to.values[column * to.stride] = row[column];
  return absl::OkStatus();
}

}  // namespace warpfold::server
