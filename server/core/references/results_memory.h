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
#include <utility>

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

  // Keeps the memory, for slots that may write there.
  std::shared_ptr<const void> owner() const { return writer_; }
  // Whether slots may write there themselves.
  bool device_may_write() const { return writer_->memory->parts().front().memory->is_registered(); }
  // The call ends while slots may still write there: until they do no longer, the memory has a late writer.
  // At most once.
  void EndEarly();
  // Where the columns of `count` segments from `first` on lie; nowhere if there are no such segments.
  kernels::ResultColumns ColumnsOf(std::uint64_t first, std::uint64_t count) const;

  // Writes what a slot has made of segments from `first` on, unless it has written that itself. INTERNAL if
  // there are no such segments.
  absl::Status Write(std::uint64_t first, const kernels::SegmentsResult& result) const;
  // The same for one segment: a value for each column.
  absl::Status WriteRow(std::uint64_t segment, std::span<const std::uint64_t> row) const;

 private:
  struct Writer {
    explicit Writer(std::shared_ptr<const NamedMemory> of) : memory(std::move(of)) {}
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;
    ~Writer() {
      if (is_late) memory->AddLateWriter(-1);
    }
    const std::shared_ptr<const NamedMemory> memory;
    bool is_late = false;
  };

  std::shared_ptr<Writer> writer_;
  std::uint64_t* values_ = nullptr;
  std::uint64_t segment_count_ = 0;
};

}  // namespace warpfold::server
