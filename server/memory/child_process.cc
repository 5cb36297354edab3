// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/memory/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"

namespace warpfold::server {
namespace {

// Runs `command` with `input` as its standard input, no signals blocked, and no output to print to. It has no
// other descriptor of this process: Boost.Asio accepts connections that other processes would inherit, and a
// client that reads one to its end would also wait for the end of that process.
pid_t Spawn(const std::vector<std::string>& command, const FileDescriptor& input) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input.get(), STDIN_FILENO);
  for (const int output : {STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&actions, output, "/dev/null", O_WRONLY, 0);
  }
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
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

}  // namespace

absl::Status ChildProcess::Start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return NoProber("no descriptors");
  FileDescriptor ours(ends[0]);
  const FileDescriptor theirs(ends[1]);
  process_ = Spawn(command_, theirs);
  if (process_ < 0) return NoProber("no process can be started");
  socket_ = std::move(ours);
  return absl::OkStatus();
}

void ChildProcess::Kill() {
  socket_ = FileDescriptor();
  if (process_ > 0) kill(process_, SIGKILL);
}

void ChildProcess::Stop() {
  Kill();
  while (process_ > 0 && waitpid(process_, nullptr, 0) < 0 && errno == EINTR) continue;
  process_ = -1;
}

void ChildProcess::Abandon() {
  Kill();
  process_ = -1;
}

bool ChildProcess::IsRunning() {
  if (process_ < 0) return false;
  if (waitpid(process_, nullptr, WNOHANG) == 0) return true;
  socket_ = FileDescriptor();
  process_ = -1;
  return false;
}

absl::Status NoProber(absl::string_view why) {
  return kernels::Error(absl::StatusCode::kUnavailable, reason::kNoProber,
                        absl::StrCat("memory of other processes cannot be checked: ", why));
}

void EndWithParent() { prctl(PR_SET_PDEATHSIG, SIGKILL); }

}  // namespace warpfold::server
