// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the process asks of the operating system.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace warpfold::server {

// To be called before the first large allocation: keeps freed memory instead of returning it to the
// system, which otherwise takes and clears the pages of every received message anew.
void TuneAllocator();

// To be called before gRPC is used: has each of its threads watch the sockets of its own completion queue, so
// that a shard's thread receives what its calls are sent (docs/adr/0029). A strategy that the
// environment names stays, if gRPC has it.
void ChoosePolling();

// To be called before gRPC is used: its locks are abseil's, which in Debian's build keep a graph of the order
// in which they were taken, behind one lock for the whole process, and end the process where a thread might
// have waited for ever (docs/adr/0084).
void LeaveLocksUnchecked();

// Raises the limit on open files to what the system allows.
void RaiseFileLimit();
// How many files the process may have open.
std::uint64_t DescriptorLimit();
// How many it has open: the limit where there is no descriptor left to count them by, nothing where the
// system does not tell (without /proc).
std::optional<std::uint64_t> OpenDescriptors();
// How many more it may open, all of them where the system does not tell how many are open.
std::size_t FreeDescriptors();

// RESOURCE_EXHAUSTED if the process cannot have `count` more threads. Makes them, and ends them again.
absl::Status CheckThreads(int count);

// Ignores SIGPIPE, SIGXFSZ and SIGHUP. Writing to a pipe that nobody reads any more, or to a file at its
// limit, is an error like any other: a log that goes nowhere is no reason to end. Nor is a request to read
// files again, which are watched in any case.
void IgnoreSignals();

// Tells systemd how the process does, if it was started by it and waits for that (sd_notify(3)): "READY=1",
// "STOPPING=1".
void TellManager(const std::string& state);

// When the process began, about: the time of day at which its globals were made.
absl::Time StartTime();

// The processor time that all threads of this process have used, and the memory that it holds. The system
// counts both.
absl::Duration CpuTime();
struct ResidentMemory {
  std::uint64_t bytes = 0;      // all of it
  std::uint64_t own_bytes = 0;  // without files and shared memory, as what clients have registered
};
ResidentMemory Resident();

// "a directory", "a FIFO": what has this mode, as stat(2) or lstat(2) tells it.
absl::string_view KindOfFile(mode_t mode);

// The contents of a regular file. NOT_FOUND if it cannot be read and RESOURCE_EXHAUSTED if it is larger than
// 4 MiB. The reason is the end of a sentence, without the path, which is the flag's business.
absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace warpfold::server
