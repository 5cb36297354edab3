// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/standard_input.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "client/cli/deadline.h"
#include "client/connections/status.h"
#include "proto/error_reasons.h"
#include "proto/shared/steady_time.h"

namespace warpfold::cli {
namespace {

// poll() counts milliseconds in an int.
constexpr absl::Duration kLongestWait = absl::Hours(1);

}  // namespace

bool AwaitStandardInput(absl::Duration timeout) {
  pollfd input = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  // read() reports an error; an interruption is only a short wait.
  const int ready = poll(&input, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout)));
  return ready > 0 || (ready < 0 && errno != EINTR);
}

absl::StatusOr<std::size_t> ReadStandardInput(std::span<std::byte> buffer, absl::Time deadline) {
  while (true) {
    while (!AwaitStandardInput(std::clamp(TimeLeft(deadline), absl::ZeroDuration(), kLongestWait))) {
      if (SteadyNow() >= deadline) {
        return MakeError(absl::StatusCode::kDeadlineExceeded, reason::kDeadline,
                         "nothing came through standard input");
      }
    }
    const ssize_t size = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (size >= 0) return static_cast<std::size_t>(size);
    // Another process may have made the pipe or terminal that we share non-blocking, and read before us.
    const int error = errno;
    if (error != EAGAIN && error != EINTR) return absl::ErrnoToStatus(error, "cannot read");
  }
}

}  // namespace warpfold::cli
