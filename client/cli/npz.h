// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Archives of arrays, as numpy.savez and savez_compressed write them: zip files whose members are .npy files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace warpfold::cli {

// What every zip file with a member starts with, or an empty one.
bool IsZip(std::span<const std::byte> start);

// One member of an archive, read from its start to its end. Threads: one at a time.
class NpzMember {
 public:
  // `archive` is the whole file, and must outlive this. `name` is with or without ".npy"; without a name
  // there must be one member. INVALID_ARGUMENT says what is wrong: no zip file, no such member, several,
  // encrypted.
  static absl::StatusOr<NpzMember> Open(std::span<const std::byte> archive,
                                        const std::optional<std::string>& name);

  NpzMember(NpzMember&&) noexcept = default;
  NpzMember& operator=(NpzMember&&) noexcept = default;
  ~NpzMember() = default;

  // The size of the unpacked member, as the archive announces it.
  std::uint64_t byte_count() const { return byte_count_; }
  // Where the member lies if it is not compressed; empty if it is.
  std::span<const std::byte> stored() const { return stored_; }
  // Reads all of `stored`. INVALID_ARGUMENT if it has not the checksum that the archive says;
  // DEADLINE_EXCEEDED or CANCELLED if that is not known in time, or not wanted any more.
  absl::Status CheckStored(absl::Time deadline, const std::stop_token& stop = {}) const;

  // Unpacks the next bytes: how many, 0 at the end. INVALID_ARGUMENT if they are damaged, also at the end,
  // where the checksum is compared.
  absl::StatusOr<std::size_t> Read(std::span<std::byte> buffer);

 private:
  struct Archive;
  struct Close {
    void operator()(Archive* archive) const;
  };
  NpzMember() = default;

  std::unique_ptr<Archive, Close> archive_;
  std::uint64_t byte_count_ = 0;
  std::uint32_t crc32_ = 0;
  std::span<const std::byte> stored_;
};

}  // namespace warpfold::cli
