// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A compressed member of an archive, from its start to its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/npz.h"

struct z_stream_s;

namespace warpfold::cli {

// Threads: one at a time.
class Unpacker {
 public:
  // The member must be packed. The archive must outlive this.
  explicit Unpacker(const NpzMember& member);

  // Unpacks the next bytes and returns how many; 0 only at the end. INVALID_ARGUMENT if they are damaged, or
  // if the member ends with them and does not have the length or the checksum that the archive gives.
  // `buffer` must not be empty.
  absl::StatusOr<std::size_t> Read(std::span<std::byte> buffer);

  // Fills the buffer, or unpacks up to `position` without keeping it. INVALID_ARGUMENT also if the member
  // ends earlier.
  absl::Status ReadAll(std::span<std::byte> buffer);
  absl::Status SkipTo(std::uint64_t position);

  // INVALID_ARGUMENT unless everything has been read, and is correct.
  absl::Status ExpectEnd();

  // How many have been unpacked.
  std::uint64_t position() const { return position_; }

 private:
  struct Close {
    void operator()(z_stream_s* stream) const;
  };
  absl::Status CheckEnd() const;

  NpzMember member_;
  std::unique_ptr<z_stream_s, Close> stream_;  // null if there was no memory for it
  std::span<const std::byte> rest_;            // which zlib has not been given yet
  std::uint64_t position_ = 0;
  std::uint32_t crc32_ = 0;
  bool ended_ = false;
};

}  // namespace warpfold::cli
