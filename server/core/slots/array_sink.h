// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the bytes of an array go that arrives in pieces.
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
  // slot is free; the sink's owner then hears when there is room again. The bytes stay in place and unchanged
  // for as long as `owner` is held, so that the sink may hold `owner` instead of copying them; without an
  // owner it copies them.
  virtual absl::StatusOr<std::size_t> Append(ByteSlice bytes, const std::shared_ptr<const void>& owner) = 0;
  // Whether it takes no more bytes until a slot is free.
  virtual bool waits_for_slot() const = 0;
  // Says that no more bytes are at hand for now.
  virtual absl::Status Pause() = 0;
  // How many bytes it has had to copy out of a slot, and copies back before it takes more.
  virtual std::uint64_t held_bytes() const { return 0; }
};

}  // namespace warpfold::server
