// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the process needs from the operating system.
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

// Call this before the first large allocation: keeps freed memory instead of returning it to the system,
// which would otherwise take and clear the pages of every received message again.
void TuneAllocator();

// Call this before gRPC is used: it makes each of gRPC's threads watch the sockets of its own completion
// queue, so that a shard's thread receives what is sent to its calls (docs/adr/0029). A strategy that the
// environment names stays, if gRPC has it.
void ChoosePolling();

// Call this before gRPC is used: its locks are abseil's, which in Debian's build keep a graph of the order in
// which they were taken, behind one lock for the whole process, and end the process if a thread might have
// waited for ever (docs/adr/0084).
void LeaveLocksUnchecked();

// Raises the limit on open files to what the system allows.
void RaiseFileLimit();
// How many files the process may have open.
std::uint64_t DescriptorLimit();
// How many it has open: the limit if there is no descriptor left with which to count them, nothing if the
// system does not report it (without /proc).
std::optional<std::uint64_t> OpenDescriptors();
// How many more it may open; all of them if the system does not report how many are open.
std::size_t FreeDescriptors();

// RESOURCE_EXHAUSTED if the process cannot have `count` more threads. Makes them, and ends them again.
absl::Status CheckThreads(int count);

// Does not ignore SIGCHLD, whatever this process' parent does, and ignores SIGPIPE, SIGXFSZ and SIGHUP.
// Writing to a pipe that nobody reads any more, or to a file at its limit, is an error like any other: a log
// that goes nowhere is no reason to end. Nor is a request to reload files, which are watched in any case.
void IgnoreSignals();

// Tells systemd the state of the process, if systemd started it and waits for that (sd_notify(3)): "READY=1",
// "STOPPING=1".
void TellManager(const std::string& state);

// Roughly when the process began: the time of day at which its globals were constructed.
absl::Time StartTime();

// The processor time that all threads of this process have used, and the memory that it holds. The system
// counts both.
absl::Duration CpuTime();
struct ResidentMemory {
  std::uint64_t bytes = 0;      // all of it
  std::uint64_t own_bytes = 0;  // without files and shared memory, such as what clients have registered
};
ResidentMemory Resident();

// "a directory", "a FIFO": the kind of file with this mode, as stat(2) or lstat(2) returns it.
absl::string_view KindOfFile(mode_t mode);

// The contents of a regular file. NOT_FOUND if it cannot be read and RESOURCE_EXHAUSTED if it is larger than
// 4 MiB. The reason is the end of a sentence, without the path, which the flag's message names.
absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace warpfold::server
