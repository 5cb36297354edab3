// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Archives of arrays, as numpy.savez and savez_compressed write them: zip files whose members are .npy files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace warpfold::cli {

// One member of an archive, in place in the file.
struct NpzMember {
  // `archive` is the whole file, and must outlive the member. `name` is with or without ".npy", and of
  // several members with one name the last is taken, as in NumPy; without a name there must be one member.
  // INVALID_ARGUMENT says what is wrong: not a zip file, damaged, no such member, several, encrypted, or
  // compressed in another way than with deflate.
  static absl::StatusOr<NpzMember> Find(std::span<const std::byte> archive,
                                        const std::optional<std::string>& name);

  // Reads a member that is not packed. INVALID_ARGUMENT if it does not have the checksum that the archive
  // gives; DEADLINE_EXCEEDED or CANCELLED if that is not known in time, or no longer wanted.
  absl::Status CheckStored(absl::Time deadline, const std::stop_token& stop = {}) const;

  bool packed = false;               // by deflate: see Unpacker
  std::span<const std::byte> bytes;  // of the archive
  std::uint64_t byte_count = 0;      // when it is unpacked, as the archive announces it
  std::uint32_t crc32 = 0;           // of the unpacked bytes
  std::string name = {};
};

}  // namespace warpfold::cli
