// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the bytes of an array go that arrives in pieces.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/byte_slices.h"

namespace warpfold::server {

class ArraySink {
 public:
  virtual ~ArraySink() = default;
  // Takes the next bytes of the array and returns how many: fewer where no slot is free; the sink's owner
  // hears when there is room again.
  virtual absl::StatusOr<std::size_t> Append(ByteSlice bytes) = 0;
  // The same of bytes that stay where they are, and as they are, for as long as `owner` is held: the sink may
  // hold it instead of copying them.
  virtual absl::StatusOr<std::size_t> AppendOwned(ByteSlice bytes, const std::shared_ptr<const void>& owner) {
    static_cast<void>(owner);
    return Append(bytes);
  }
  // No more bytes are at hand for now.
  virtual absl::Status Pause() = 0;
};

}  // namespace warpfold::server
