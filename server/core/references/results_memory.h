// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The part of a client's memory where a call writes the results of its segments, instead of sending them.
// Others may write there at any time: nothing here reads it.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "kernels/segments.h"
#include "server/core/references/memory_registry.h"

namespace warpfold::server {

class ResultsMemory {
 public:
  // Columns for `segment_count` segments, one after the other, from `byte_offset` on: a multiple of 8, and
  // they must lie within memory->writable().
  ResultsMemory(std::shared_ptr<const NamedMemory> memory, std::uint64_t byte_offset,
                std::uint64_t segment_count);

  const std::shared_ptr<const NamedMemory>& memory() const { return memory_; }
  // Whether slots may write there themselves.
  bool device_may_write() const { return memory_->parts().front().memory->is_registered(); }
  // Where the columns of `count` segments from `first` on lie; nowhere if there are no such segments.
  kernels::ResultColumns ColumnsOf(std::uint64_t first, std::uint64_t count) const;

  // Writes what a slot has made of segments from `first` on, unless it has written that itself. INTERNAL if
  // there are no such segments.
  absl::Status Write(std::uint64_t first, const kernels::SegmentsResult& result) const;
  // The same for one segment: a value for each column.
  absl::Status WriteRow(std::uint64_t segment, std::span<const std::uint64_t> row) const;

 private:
  std::shared_ptr<const NamedMemory> memory_;
  std::uint64_t* values_ = nullptr;
  std::uint64_t segment_count_ = 0;
};

}  // namespace warpfold::server
