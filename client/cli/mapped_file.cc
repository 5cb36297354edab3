// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/cleanup/cleanup.h"

namespace warpfold::cli {

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  // Not blocking on a FIFO without a writer: it is refused below.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return absl::ErrnoToStatus(errno, "cannot open");
  const absl::Cleanup close_file = [file] { close(file); };
  struct stat info = {};
  if (fstat(file, &info) != 0) return absl::ErrnoToStatus(errno, "cannot read");
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError("not a regular file; '-' reads a stream");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return MappedFile({});
  void* memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (memory == MAP_FAILED) return absl::ErrnoToStatus(errno, "cannot map");
  // Only a hint.
  static_cast<void>(madvise(memory, size, MADV_SEQUENTIAL));
  return MappedFile({static_cast<const std::byte*>(memory), size});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace warpfold::cli
