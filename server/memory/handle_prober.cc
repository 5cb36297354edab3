// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/memory/handle_prober.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"

namespace warpfold::server {
namespace {

constexpr std::size_t kMostKnown = 1024;

// An answer: the code of the status, then its message, as far as it fits.
struct Answer {
  std::int32_t code;
  std::array<char, 508> message;
};

absl::Status NoProber(absl::string_view what) {
  return kernels::Error(absl::StatusCode::kUnavailable, reason::kNoProber,
                        absl::StrCat("GPU memory of other processes cannot be checked: ", what));
}

absl::Status BadHandle(absl::string_view what) {
  return kernels::Error(absl::StatusCode::kInvalidArgument, reason::kBadMemory, what, {{"field", "handle"}});
}

// Runs `command` with `input` as its standard input, no signals held back, and nothing to print to.
pid_t Spawn(const std::vector<std::string>& command, const FileDescriptor& input) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input.get(), STDIN_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t process = -1;
  if (posix_spawn(&process, arguments[0], &actions, &attributes, arguments.data(), environ) != 0)
    process = -1;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return process;
}

bool CanRead(int fd, absl::Duration timeout) {
  pollfd watched = {.fd = fd, .events = POLLIN, .revents = 0};
  const absl::Time deadline = absl::Now() + timeout;
  for (;;) {
    const auto left = std::max<std::int64_t>(absl::ToInt64Milliseconds(deadline - absl::Now()), 0);
    const int ready = poll(&watched, 1, static_cast<int>(left));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

}  // namespace

absl::Status HandleProber::Probe(const kernels::ProcessMemory& memory) {
  if (IsKnown(memory)) return absl::OkStatus();
  // The process may have ended since it last answered; the cause is not known.
  const bool is_new = process_ < 0;
  if (is_new) {
    if (absl::Status status = Start(); !status.ok()) return status;
  }
  absl::Status status = Ask(memory);
  if (absl::IsUnavailable(status) && !is_new) {
    Stop();
    if (absl::Status started = Start(); !started.ok()) return started;
    status = Ask(memory);
  }
  if (absl::IsUnavailable(status)) {
    Stop();
    return BadHandle(status.message());
  }
  if (status.ok()) {
    known_.push_back(memory);
    if (known_.size() > kMostKnown) known_.pop_front();
  }
  return status;
}

absl::Status HandleProber::Start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return NoProber("no descriptors");
  FileDescriptor ours(ends[0]);
  const FileDescriptor theirs(ends[1]);
  process_ = Spawn(command_, theirs);
  if (process_ < 0) return NoProber("no process can be started");
  socket_ = std::move(ours);
  return absl::OkStatus();
}

void HandleProber::Stop() {
  if (process_ < 0) return;
  socket_ = FileDescriptor();
  kill(process_, SIGKILL);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) continue;
  process_ = -1;
}

// UNAVAILABLE, with what to say of the memory, if the process is of no more use.
absl::Status HandleProber::Ask(const kernels::ProcessMemory& memory) {
  Answer answer = {};
  if (send(socket_.get(), &memory, sizeof(memory), MSG_NOSIGNAL) != sizeof(memory)) {
    return absl::UnavailableError("the process that reads it first has ended");
  }
  if (!CanRead(socket_.get(), timeout_)) {
    return absl::UnavailableError("reading the memory of the handle does not end");
  }
  if (recv(socket_.get(), &answer, sizeof(answer), 0) != sizeof(answer)) {
    return absl::UnavailableError("reading the memory of the handle ends the process that does it");
  }
  answer.message.back() = '\0';
  const auto code = static_cast<absl::StatusCode>(answer.code);
  if (code == absl::StatusCode::kOk) return absl::OkStatus();
  if (code == absl::StatusCode::kInvalidArgument) return BadHandle(answer.message.data());
  return absl::Status(code, answer.message.data());
}

bool HandleProber::IsKnown(const kernels::ProcessMemory& memory) const {
  return std::any_of(known_.begin(), known_.end(), [&](const kernels::ProcessMemory& known) {
    // If the memory begins before the known range, the difference wraps around and exceeds any count.
    const std::uint64_t skipped = memory.byte_offset - known.byte_offset;
    return known.handle == memory.handle && known.pci_bus_id == memory.pci_bus_id &&
           skipped <= known.byte_count && memory.byte_count <= known.byte_count - skipped;
  });
}

int ServeProbes(const std::function<absl::Status(const kernels::ProcessMemory&)>& probe) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // of the thread that started this process
  kernels::ProcessMemory memory;
  while (recv(STDIN_FILENO, &memory, sizeof(memory), 0) == sizeof(memory)) {
    const absl::Status status = probe(memory);
    Answer answer = {.code = static_cast<std::int32_t>(status.code()), .message = {}};
    status.message().copy(answer.message.data(), answer.message.size() - 1);
    if (send(STDIN_FILENO, &answer, sizeof(answer), MSG_NOSIGNAL) != sizeof(answer)) return 1;
  }
  return 0;
}

}  // namespace warpfold::server
