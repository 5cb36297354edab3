// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/deadline.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "absl/strings/string_view.h"

namespace warpfold::cli {
namespace {

// A call that ends by itself does so well within this time.
constexpr absl::Duration kGrace = absl::Seconds(5);

// A time that the system can count in nanoseconds.
constexpr absl::Duration kLongestTime = absl::Hours(24 * 365 * 100);

[[noreturn]] void EndProcess(int exit_code) {
  constexpr absl::string_view kMessage =
      "warpfold: DEADLINE_EXCEEDED (DEADLINE): the time is up, and a reader of the answers or a file system "
      "hangs\n";
  pollfd error = {.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  // Standard error, too, may be a pipe that nobody reads.
  if (poll(&error, 1, 0) > 0) static_cast<void>(!write(STDERR_FILENO, kMessage.data(), kMessage.size()));
  // This does not call exit(), whose destructors would wait for the same thing as the command.
  _exit(exit_code);
}

}  // namespace

DeadlineGuard::DeadlineGuard(absl::Time deadline, int exit_code)
    : thread_([this, deadline, exit_code] {
        const auto time = absl::ToChronoNanoseconds(std::min(TimeLeft(deadline) + kGrace, kLongestTime));
        std::unique_lock lock(mutex_);
        if (!ended_.wait_for(lock, time, [this] { return is_over_; })) EndProcess(exit_code);
      }) {}

DeadlineGuard::~DeadlineGuard() {
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  ended_.notify_all();
}

}  // namespace warpfold::cli
