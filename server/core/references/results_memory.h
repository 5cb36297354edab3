// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The part of a client's memory, of the host or of a GPU, where a call writes the results of its segments,
// instead of sending them. Others may write there at any time: nothing here reads it.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "kernels/segments.h"
#include "server/core/references/memory_registry.h"

namespace warpfold::server {

class ResultsMemory {
 public:
  // Columns for `segment_count` segments of `row_bytes` each, one after the other, from `byte_offset` on: its
  // address is a multiple of 8, and they must lie within memory->writable(). Nothing if another call has a
  // part of that place, or a device may still write there for a call that has ended; a place without segments
  // has no part.
  static std::optional<ResultsMemory> Take(std::shared_ptr<const NamedMemory> memory,
                                           std::uint64_t byte_offset, std::size_t row_bytes,
                                           std::uint64_t segment_count);

  // Keeps the memory and the place, for slots that may write there.
  std::shared_ptr<const void> owner() const { return place_; }
  // Whether slots may write there themselves.
  bool device_may_write() const { return memory().is_registered(); }
  // The device that has it, which the host does not access; none if the host has it.
  std::optional<int> device() const { return memory().device(); }
  // Where the columns of `count` segments from `first` on lie; nowhere if there are no such segments.
  kernels::ResultColumns ColumnsOf(std::uint64_t first, std::uint64_t count) const;

  // Writes what has been made of segments from `first` on, unless a slot has written that itself. INTERNAL if
  // there are no such segments; errors of the device if the memory is a GPU's, to which each column
  // is a copy that this waits for.
  absl::Status Write(std::uint64_t first, const kernels::SegmentsResult& result) const;

 private:
  // A range that is reserved for as long as this object exists. It starts at `begin`, which is none if it has
  // no bytes.
  struct Place {
    Place(std::shared_ptr<const NamedMemory> of, std::optional<std::uint64_t> at)
        : memory(std::move(of)), begin(at) {}
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() {
      if (begin.has_value()) memory->EndWriting(*begin);
    }
    const std::shared_ptr<const NamedMemory> memory;
    const std::optional<std::uint64_t> begin;
  };

  ResultsMemory() = default;

  const kernels::Memory& memory() const { return *place_->memory->parts().front().memory; }
  // Writes `values`, of one column, to `to`.
  absl::Status Put(std::uint64_t* to, std::span<const std::uint64_t> values) const;

  std::shared_ptr<const Place> place_;
  std::uint64_t* values_ = nullptr;
  std::uint64_t segment_count_ = 0;
};

}  // namespace warpfold::server
