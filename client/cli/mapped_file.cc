// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "client/connections/status.h"

namespace warpfold::cli {
namespace {

// For the signal handler, which may read only these.
std::atomic<std::uintptr_t> missing_page = 0;  // the last one
std::uintptr_t page_bytes = 0;

void ReplaceMissingPage(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const std::uintptr_t page = reinterpret_cast<std::uintptr_t>(info->si_addr) & ~(page_bytes - 1);
  // Only accesses beyond the end of a mapped object have this code. Others end the process when they are
  // repeated.
  if (info->si_code != BUS_ADRERR || mmap(reinterpret_cast<void*>(page), page_bytes, PROT_READ,
                                          MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) {
    std::signal(SIGBUS, SIG_DFL);
    return;
  }
  missing_page = page;
}

// gRPC ends the process if it gets no descriptor: these are for its connections.
constexpr rlim_t kLeftDescriptors = 128;
// A process may have 65,530 mappings (vm.max_map_count), of which each thread takes two.
constexpr rlim_t kMaxDescriptors = 32'768;

rlimit DescriptorLimit() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

absl::Status CheckDescriptor(int file) {
  const rlim_t limit = std::min(DescriptorLimit().rlim_cur, kMaxDescriptors);
  const rlim_t most = limit - std::min(kLeftDescriptors, limit / 2);
  if (static_cast<rlim_t>(file) < most) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("too many files: only ", most, " descriptors are for them (see ulimit -Hn)"));
}

// The system generates the content of some files when they are read, and does not know its size before.
absl::Status CheckEmpty(int file, absl::string_view instead) {
  char byte = 0;
  const ssize_t size = pread(file, &byte, 1, 0);
  if (size < 0) return absl::ErrnoToStatus(errno, "cannot read");
  if (size == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the system does not know the file's size", instead));
}

// This is not the time at which the inode changed: that also differs once the file has a new name or mode.
absl::Time Modified(const struct stat& info) { return absl::TimeFromTimespec(info.st_mtim); }

// Whether the result depends on the bytes that were sent. If a server is not there, or full, it does not.
bool ComesOfTheBytes(const absl::Status& call) {
  return call.ok() || absl::IsDataLoss(call) || absl::IsOutOfRange(call) || absl::IsInvalidArgument(call);
}

}  // namespace

void SurviveShortenedFiles() {
  page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action = {};
  action.sa_sigaction = ReplaceMissingPage;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

void AllowManyFiles() {
  rlimit limit = DescriptorLimit();
  const rlim_t most = std::min(limit.rlim_max, kMaxDescriptors);
  if (limit.rlim_cur >= most) return;
  limit.rlim_cur = most;
  setrlimit(RLIMIT_NOFILE, &limit);
}

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path, absl::string_view instead) {
  // This must not block on a FIFO without a writer: it is rejected below.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return absl::ErrnoToStatus(errno, "cannot open");
  absl::Cleanup close_file = [file] { close(file); };
  if (absl::Status status = CheckDescriptor(file); !status.ok()) return status;
  struct stat info = {};
  if (fstat(file, &info) != 0) return absl::ErrnoToStatus(errno, "cannot read");
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat("not a regular file", instead));
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) {
    if (absl::Status status = CheckEmpty(file, instead); !status.ok()) return status;
  }
  std::span<const std::byte> bytes;
  if (size > 0) {
    void* memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (memory == MAP_FAILED) return absl::ErrnoToStatus(errno, "cannot map");
    // Only a hint.
    static_cast<void>(madvise(memory, size, MADV_SEQUENTIAL));
    bytes = {static_cast<const std::byte*>(memory), size};
  }
  std::move(close_file).Cancel();
  return MappedFile(file, bytes, Modified(info));
}

absl::Status MappedFile::CheckWhole(const absl::Status& call) const {
  struct stat info = {};
  const bool is_short = fstat(file_, &info) != 0 || static_cast<std::size_t>(info.st_size) < bytes_.size();
  // The file may have grown again since.
  const std::uintptr_t first_page = reinterpret_cast<std::uintptr_t>(bytes_.data());
  const bool was_short = missing_page >= first_page && missing_page - first_page < bytes_.size();
  const bool is_same = static_cast<std::size_t>(info.st_size) == bytes_.size() && Modified(info) == modified_;
  // A server, too, may report a bad address.
  if (is_short || was_short || (CouldNotRead(call) && !is_same)) {
    return absl::InvalidArgumentError("the file was shortened while it was read");
  }
  if (is_same || !ComesOfTheBytes(call)) return absl::OkStatus();
  return absl::InvalidArgumentError("the file changed while it was read");
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      bytes_(std::exchange(other.bytes_, {})),
      modified_(other.modified_) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  if (file_ >= 0) close(file_);
}

}  // namespace warpfold::cli
