// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A file in memory without reading it.
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
  // a regular file, or one whose size the system does not know; RESOURCE_EXHAUSTED if too few descriptors
  // would be left for connections. `instead` ends what INVALID_ARGUMENT says.
  static absl::StatusOr<MappedFile> Open(const std::string& path, absl::string_view instead = "");

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

  // INVALID_ARGUMENT once another process has shortened the file: what is missing was zeros since, or could
  // not be sent, so that no value of the array is one. Likewise if the file has another length or time of
  // modification than when it was opened: the bytes may be partly those of before. A write within the same
  // tick of the system's clock (some milliseconds) as the one before the opening is not seen, nor one through
  // a map where the file system does not tell of it (docs/adr/0121).
  // `call` is how the call ended that was lent these bytes: the system may have met a missing page while it
  // sent them, of which no signal tells. A failure that does not come of the bytes stands, though the file
  // has changed.
  absl::Status CheckWhole(const absl::Status& call = absl::OkStatus()) const;

 private:
  MappedFile(int file, std::span<const std::byte> bytes, absl::Time modified)
      : file_(file), bytes_(bytes), modified_(modified) {}

  int file_ = -1;
  std::span<const std::byte> bytes_;
  absl::Time modified_;  // before it was read
};

// Lets the process have more files open than the system's default, as far as it may: each mapped file is one
// of them, since only by its descriptor is it known to be as long as it was.
void AllowManyFiles();

// A page of a mapped file that is no longer there becomes a page of zeros when it is read, where the system
// would end the process (SIGBUS). To be called before a file is opened.
void SurviveShortenedFiles();

}  // namespace warpfold::cli
