// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/bench/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "proto/shared/steady_time.h"

namespace warpfold::cli {
namespace {

// A GPU's driver may have to be loaded first.
constexpr absl::Duration kReadyTimeout = absl::Seconds(60);
constexpr absl::Duration kEndTimeout = absl::Seconds(10);
// A process that has closed its standard output has ended by then, or goes on.
constexpr absl::Duration kEndingTime = absl::Seconds(1);
constexpr absl::Duration kEndCheckedEvery = absl::Milliseconds(5);
// So long a log is kept. A process with more to say is refused it as by a full disk, so that nobody has to
// read a line for each call.
constexpr std::size_t kLogBytes = std::size_t{64} << 10;

// Runs in the new process, which must not allocate: another thread may have been allocating at the fork.
[[noreturn]] void BecomeChild(char* const* arguments, int output, int log, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(nowhere, STDIN_FILENO);
  dup2(log, STDERR_FILENO);
  dup2(output, STDOUT_FILENO);
  execv(arguments[0], arguments);
  const absl::string_view why = strerrordesc_np(errno);
  static_cast<void>(!write(STDERR_FILENO, why.data(), why.size()));
  _exit(127);
}

// The first line that comes through `pipe`; what has come if it ends earlier.
std::string ReadLine(int pipe) {
  const absl::Time deadline = SteadyNow() + kReadyTimeout;
  std::string line;
  while (SteadyNow() < deadline) {
    pollfd waiting = {.fd = pipe, .events = POLLIN, .revents = 0};
    // A negative number would wait for ever.
    const absl::Duration left = std::max(deadline - SteadyNow(), absl::ZeroDuration());
    if (poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(left))) <= 0) continue;
    char letter = 0;
    if (read(pipe, &letter, 1) != 1 || letter == '\n') break;
    line.push_back(letter);
  }
  return line;
}

// "READY listen=ADDRESS ...": the address, or nothing.
std::string AddressIn(const std::string& line) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  constexpr absl::string_view kListen = "listen=";
  if (words.size() < 2 || words[0] != "READY" || !absl::StartsWith(words[1], kListen)) return "";
  const std::string all = words[1].substr(kListen.size());
  return all.substr(0, all.find(','));
}

// Memory of that size, as a file. Negative if there is none.
int MakeLog() {
  const int log = memfd_create("log", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (log < 0 || (ftruncate(log, kLogBytes) == 0 && fcntl(log, F_ADD_SEALS, F_SEAL_GROW) == 0)) return log;
  close(log);
  return -1;
}

// The last line of the log, or nothing.
std::string LastLineOf(int log) {
  std::string text(kLogBytes, '\0');
  const ssize_t size = pread(log, text.data(), text.size(), 0);
  text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  text.resize(std::min(text.find('\0'), text.size()));
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipWhitespace());
  return lines.empty() ? "" : lines.back();
}

// `how` it has ended, if it has, and what it `said` before.
absl::Status NotReady(const std::string& executable, std::optional<int> how, const std::string& said) {
  std::string text = absl::StrCat(executable, " did not get ready to take calls");
  if (how.has_value() && WIFEXITED(*how)) absl::StrAppend(&text, ", exit code ", WEXITSTATUS(*how));
  if (how.has_value() && WIFSIGNALED(*how)) absl::StrAppend(&text, ", signal ", WTERMSIG(*how));
  if (!said.empty()) absl::StrAppend(&text, ": ", said);
  return absl::UnavailableError(text);
}

}  // namespace

absl::StatusOr<ChildProcess> ChildProcess::Start(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  int pipe[2];
  if (pipe2(pipe, O_CLOEXEC) != 0) return absl::ResourceExhaustedError("no pipe can be made");
  const int log = MakeLog();
  const absl::Cleanup close_all = [&pipe, log] {
    close(pipe[0]);
    if (log >= 0) close(log);
  };
  const pid_t parent = getpid();
  const pid_t pid = log < 0 ? -1 : fork();
  if (pid == 0) BecomeChild(arguments.data(), pipe[1], log, parent);
  close(pipe[1]);
  if (pid < 0) return absl::ResourceExhaustedError("no process can be started");
  ChildProcess child(pid);
  child.address_ = AddressIn(ReadLine(pipe[0]));
  if (!child.address_.empty()) return child;
  const std::optional<int> how = child.AwaitEnd(kEndingTime);
  return NotReady(command[0], how, LastLineOf(log));
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), address_(std::move(other.address_)) {}

ChildProcess::~ChildProcess() {
  if (pid_ == 0) return;
  kill(pid_, SIGTERM);
  if (AwaitEnd(kEndTimeout).has_value()) return;
  kill(pid_, SIGKILL);
  AwaitEnd(absl::InfiniteDuration());
}

std::optional<int> ChildProcess::AwaitEnd(absl::Duration longest) {
  const absl::Time deadline = SteadyNow() + longest;
  int how = 0;
  while (waitpid(pid_, &how, WNOHANG) == 0) {
    if (SteadyNow() >= deadline) return std::nullopt;
    absl::SleepFor(kEndCheckedEvery);
  }
  pid_ = 0;
  return how;
}

absl::StatusOr<double> CpuSecondsOf(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return absl::NotFoundError(absl::StrCat("there is no process ", pid));
  // From the third field on: the state, ..., utime (14), stime (15).
  const std::vector<std::string> fields = absl::StrSplit(text.substr(end_of_name + 2), ' ');
  constexpr std::size_t kUserTime = 11;
  std::uint64_t user = 0;
  std::uint64_t system = 0;
  if (fields.size() <= kUserTime + 1 || !absl::SimpleAtoi(fields[kUserTime], &user) ||
      !absl::SimpleAtoi(fields[kUserTime + 1], &system)) {
    return absl::InternalError(absl::StrCat("/proc/", pid, "/stat is not readable"));
  }
  return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double CpuSecondsOfSelf() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace warpfold::cli
