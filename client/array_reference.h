// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Arrays that the server can read without receiving them: they are kept in its device's memory (Client::Put),
// or lie in memory that was registered with it (shared_memory.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "client/array.h"

namespace warpfold {

// A range of elements in such memory: raw, little-endian, row-major and adjacent. It may be any part of a
// kept array.
struct ArrayReference {
  std::string token;              // bytes: ResidentArray::token, RegisteredMemory::token()
  std::uint64_t byte_offset = 0;  // of the first element
  std::uint64_t element_count = 0;
};

// How to keep an array.
struct PutOptions {
  // How long the array stays after its last use, rounded up to whole seconds, and reduced to the server's
  // maximum (ServerLimits.max_time_to_live_seconds); zero: its default. INVALID_ARGUMENT for less.
  absl::Duration time_to_live = absl::ZeroDuration();
  // The owner, for quotas and lists; at most 128 printable ASCII characters.
  std::string owner = {};
};

// An array in the server's device memory. It stays there when this object is destroyed: Client::DeleteArray
// deletes it.
struct ResidentArray {
  // 16 random bytes, not text; empty in a list. Anyone who has it may reduce and delete the array.
  std::string token;
  std::uint64_t id = 0;
  std::string owner;
  ElementType type = ElementType::kInt32;
  std::optional<MatrixShape> matrix_shape;
  std::uint64_t element_count = 0;
  std::uint64_t byte_count = 0;
  absl::Duration age;         // since it was put
  absl::Duration expires_in;  // if nobody uses it

  ArrayReference whole() const { return {token, 0, element_count}; }
  // Elements [first, first + count), which must exist.
  ArrayReference part(std::uint64_t first, std::uint64_t count) const {
    return {token, element_count == 0 ? 0 : byte_count / element_count * first, count};
  }
};

}  // namespace warpfold
