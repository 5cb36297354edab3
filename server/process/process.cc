// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/process/process.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <latch>
#include <sstream>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "proto/shared/poll_strategy.h"

namespace warpfold::server {
namespace {

// More than the size of any list of callers and any chain of certificates.
constexpr std::size_t kMaxFileBytes = 4 << 20;

const absl::Time kStart = absl::FromChrono(std::chrono::system_clock::now());

// Open from the start: memory is counted, and given back, also when descriptors have run out.
const int kMemoryCounts = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

}  // namespace

void TuneAllocator() {
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
}

void ChoosePolling() {
  if (!IsPollStrategyChosen()) setenv(kPollStrategyVariable, "poll", /*overwrite=*/1);
}

void LeaveLocksUnchecked() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }

void RaiseFileLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::uint64_t DescriptorLimit() {
  rlimit limit = {};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

std::optional<std::uint64_t> OpenDescriptors() {
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  // All are in use, so that there is none left with which to count them.
  if (error == std::errc::too_many_files_open) return DescriptorLimit();
  if (error) return std::nullopt;
  std::uint64_t count = 0;
  for (auto entry = begin(open); entry != end(open); entry.increment(error)) ++count;
  return error ? std::nullopt : std::optional(count);
}

std::size_t FreeDescriptors() {
  const std::uint64_t limit = DescriptorLimit();
  return static_cast<std::size_t>(limit - std::min(limit, OpenDescriptors().value_or(0)));
}

void IgnoreSignals() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGHUP, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  // A parent that ignores it leaves that to its children: the system would then forget processes as they end,
  // and their numbers could be those of others when they are killed or waited for.
  std::signal(SIGCHLD, SIG_DFL);
}

void TellManager(const std::string& state) {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::size_t size = path == nullptr ? 0 : std::strlen(path);
  if (size == 0 || size >= sizeof(address.sun_path)) return;
  std::memcpy(address.sun_path, path, size);
  // A name that begins with @ is not that of a file: its first byte is 0, and its length counts (unix(7)).
  if (path[0] == '@') address.sun_path[0] = '\0';
  const int manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (manager < 0) return;
  // Whether it is read is up to the manager: nobody waits for it.
  sendto(manager, state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
         reinterpret_cast<const sockaddr*>(&address),
         static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size));
  close(manager);
}

absl::Status CheckThreads(int count) {
  std::latch over(1);
  absl::Status status;
  std::vector<std::jthread> threads;
  try {
    while (threads.size() < static_cast<std::size_t>(count)) {
      threads.emplace_back([&over] { over.wait(); });
    }
  } catch (const std::system_error&) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("the system allows too few threads: ", count, " more are needed"));
  }
  over.count_down();
  return status;
}

absl::Time StartTime() { return kStart; }

absl::Duration CpuTime() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return absl::DurationFromTimeval(usage.ru_utime) + absl::DurationFromTimeval(usage.ru_stime);
}

// The second number of this file counts the resident pages, the third those of them that are of files and of
// shared memory (proc(5)).
ResidentMemory Resident() {
  char text[256] = {};
  if (pread(kMemoryCounts, text, sizeof(text) - 1, 0) <= 0) return {};
  std::istringstream numbers(text);
  std::uint64_t all_pages = 0;
  std::uint64_t resident_pages = 0;
  std::uint64_t shared_pages = 0;
  numbers >> all_pages >> resident_pages >> shared_pages;
  const auto page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return {.bytes = resident_pages * page_bytes,
          .own_bytes = (resident_pages - std::min(shared_pages, resident_pages)) * page_bytes};
}

absl::string_view KindOfFile(mode_t mode) {
  if (S_ISREG(mode)) return "a regular file";
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISLNK(mode)) return "a symbolic link";
  return "a device";
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return absl::NotFoundError(std::strerror(errno));
  const absl::Cleanup close_file = [file] { close(file); };
  struct stat info = {};
  if (fstat(file, &info) != 0) return absl::NotFoundError(std::strerror(errno));
  // Reading a pipe could block, and a device may never end.
  if (!S_ISREG(info.st_mode)) return absl::NotFoundError(absl::StrCat("it is ", KindOfFile(info.st_mode)));
  std::string text;
  while (text.size() <= kMaxFileBytes) {
    char buffer[4096];
    const ssize_t size = read(file, buffer, sizeof(buffer));
    if (size < 0) return absl::NotFoundError(std::strerror(errno));
    if (size == 0) return text;
    text.append(buffer, static_cast<std::size_t>(size));
  }
  return absl::ResourceExhaustedError("it is larger than 4 MiB");
}

}  // namespace warpfold::server
