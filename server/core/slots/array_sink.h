// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The consumer of an array that arrives in pieces.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/wire/byte_slices.h"

namespace warpfold::server {

class ArraySink {
 public:
  virtual ~ArraySink() = default;
  // Takes the next bytes of the array and returns how many it took. It takes fewer than it was given if no
  // slot is free; the sink's owner is notified when there is room again. The bytes stay in place and
  // unchanged for as long as `owner` is held, so that the sink may hold `owner` instead of copying them;
  // without an owner it copies them.
  virtual absl::StatusOr<std::size_t> Append(ByteSlice bytes, const std::shared_ptr<const void>& owner) = 0;
  // Whether the sink takes no more bytes until a slot is free.
  virtual bool waits_for_slot() const = 0;
  // Tells the sink that no more bytes are available for now, so that its slot may be revoked.
  virtual absl::Status Pause() = 0;
  // The bytes that were copied out of a revoked slot and must be copied back before more are taken.
  virtual std::uint64_t held_bytes() const { return 0; }
};

}  // namespace warpfold::server
