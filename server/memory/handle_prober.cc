// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/memory/handle_prober.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/time/time.h"
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

absl::Status BadHandle(absl::string_view what) {
  return kernels::Error(absl::StatusCode::kInvalidArgument, reason::kBadMemory, what, {{"field", "handle"}});
}

bool CanRead(int fd, absl::Duration timeout) {
  pollfd watched = {.fd = fd, .events = POLLIN, .revents = 0};
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    const absl::Duration left = timeout - absl::FromChrono(std::chrono::steady_clock::now() - begin);
    const auto milliseconds = std::max<std::int64_t>(absl::ToInt64Milliseconds(left), 0);
    const int ready = poll(&watched, 1, static_cast<int>(milliseconds));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

}  // namespace

absl::Status HandleProber::Probe(const kernels::ProcessMemory& memory) {
  if (IsKnown(memory)) return absl::OkStatus();
  const bool is_new = !process_.IsRunning();
  if (is_new) {
    if (absl::Status status = process_.Start(); !status.ok()) return status;
  }
  absl::Status status = Ask(memory);
  // The process may just have ended over something else.
  if (absl::IsUnavailable(status) && !is_new) {
    process_.Stop();
    if (absl::Status started = process_.Start(); !started.ok()) return started;
    status = Ask(memory);
  }
  if (absl::IsUnavailable(status)) {
    process_.Stop();
    return BadHandle(status.message());
  }
  if (status.ok()) {
    known_.push_back(memory);
    if (known_.size() > kMostKnown) known_.pop_front();
  }
  return status;
}

// UNAVAILABLE, with what to say of the memory, if the process is of no more use.
absl::Status HandleProber::Ask(const kernels::ProcessMemory& memory) {
  Answer answer = {};
  if (send(process_.socket().get(), &memory, sizeof(memory), MSG_NOSIGNAL) != sizeof(memory)) {
    return absl::UnavailableError("the process that reads it first has ended");
  }
  if (!CanRead(process_.socket().get(), timeout_)) {
    return absl::UnavailableError("reading the memory of the handle does not end");
  }
  if (recv(process_.socket().get(), &answer, sizeof(answer), 0) != sizeof(answer)) {
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
  EndWithParent();
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
