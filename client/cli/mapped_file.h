// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A file that is mapped into memory without reading it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace warpfold::cli {

// Threads: immutable.
class MappedFile {
 public:
  // NOT_FOUND, PERMISSION_DENIED or another status with the system's reason; INVALID_ARGUMENT if it is not
  // a regular file, or is one whose size the system does not know; RESOURCE_EXHAUSTED if too few descriptors
  // would be left for connections. `instead` ends what INVALID_ARGUMENT says.
  static absl::StatusOr<MappedFile> Open(const std::string& path, absl::string_view instead = "");

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

  // INVALID_ARGUMENT once another process has shortened the file: the missing part has read as zeros since
  // then, or could not be sent, so that no value of the array is valid. Likewise if the file has another
  // length or modification time than when it was opened: the bytes may partly be the old ones. A write within
  // the same tick of the system's clock (some milliseconds) as the one before the opening is not detected,
  // nor is one through a mapping if the file system does not report it (docs/adr/0121). `call` is the status
  // of the call that was lent these bytes: the system may have met a missing page while it sent them, which
  // no signal reports. A failure that is not caused by the bytes stands, even if the file has changed.
  absl::Status CheckWhole(const absl::Status& call = absl::OkStatus()) const;

 private:
  MappedFile(int file, std::span<const std::byte> bytes, absl::Time modified)
      : file_(file), bytes_(bytes), modified_(modified) {}

  int file_ = -1;
  std::span<const std::byte> bytes_;
  absl::Time modified_;  // before it was read
};

// Lets the process have more files open than the system's default, as far as it may: each mapped file is one
// of them, since only its descriptor shows whether it still has its length.
void AllowManyFiles();

// A page of a mapped file that is no longer there becomes a page of zeros when it is read; otherwise the
// system would end the process (SIGBUS). Call this before a file is opened.
void SurviveShortenedFiles();

}  // namespace warpfold::cli
