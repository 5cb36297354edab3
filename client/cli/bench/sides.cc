// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/bench/sides.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace warpfold::cli {
namespace {

constexpr char kThisExecutable[] = "/proc/self/exe";

std::string ListenAddress(const std::string& transport, const std::string& name, const SocketFolder& folder) {
  return transport == "unix" ? absl::StrCat("unix:", folder.path(), "/", name) : "127.0.0.1:0";
}

absl::StatusOr<Side> Start(const std::string& name, const std::vector<std::string>& command) {
  absl::StatusOr<ChildProcess> process = ChildProcess::Start(command);
  if (!process.ok()) return process.status();
  Side side = {.name = name, .server = {.targets = {process->address()}, .credentials = nullptr}};
  side.pid = process->pid();
  side.process.emplace(*std::move(process));
  return side;
}

absl::StatusOr<Side> StartServer(const Server& server, const BenchFlags& flags, const SocketFolder& folder) {
  if (flags.server.empty()) {
    return Side{
        .name = "warpfold", .server = server, .memory_socket = flags.memory_socket, .pid = flags.server_pid};
  }
  std::vector<std::string> command = {
      flags.server, absl::StrCat("--listen=", ListenAddress(flags.transport, "warpfold", folder))};
  for (const absl::string_view flag : absl::StrSplit(flags.server_flags, ' ', absl::SkipEmpty())) {
    command.emplace_back(flag);
  }
  const std::string memory_socket = folder.path() + "/memory";
  if (flags.source == BenchSource::kMemory || flags.source == BenchSource::kIpc ||
      flags.results != BenchResults::kSent) {
    command.push_back(absl::StrCat("--memory_socket=", memory_socket));
  }
  if (flags.source == BenchSource::kResident) {
    const std::uint64_t arrays = flags.bytes * static_cast<std::uint64_t>(flags.callers);
    // Each caller's part begins at a separate boundary, and an eighth of the room is reserved for others.
    const std::uint64_t room = std::max(flags.memory_bytes, arrays) / 7 * 8 + (std::uint64_t{2} << 20);
    command.push_back(absl::StrCat("--resident_bytes=", room));
  }
  absl::StatusOr<Side> side = Start("warpfold", command);
  if (side.ok()) side->memory_socket = memory_socket;
  return side;
}

// Signals by which people end a bench.
constexpr int kEndings[] = {SIGHUP, SIGINT, SIGTERM};

// What DeleteAndEnd deletes: a signal handler can neither list a folder nor allocate.
struct Leftovers {
  std::string folder;
  std::vector<std::string> files;
};
const Leftovers* leftovers = nullptr;

// Deletes the folder, and ends the process by this signal, which has its default effect again (SA_RESETHAND).
void DeleteAndEnd(int number) {
  for (const std::string& file : leftovers->files) unlink(file.c_str());
  rmdir(leftovers->folder.c_str());
  raise(number);
}

// Has these signals handled, except for those that somebody, such as nohup, has set to be ignored.
void HandleEndings(void (*handler)(int)) {
  for (const int number : kEndings) {
    struct sigaction action = {};
    if (sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESETHAND;
    sigaction(number, &action, nullptr);
  }
}

}  // namespace

SocketFolder::SocketFolder() {
  std::error_code error;
  const std::filesystem::path scratch = std::filesystem::temp_directory_path(error);
  std::string path = (error ? std::filesystem::path("/tmp") : scratch) / "warpfold_bench_XXXXXX";
  if (mkdtemp(path.data()) == nullptr) return;
  path_ = path;
  auto* const created = new Leftovers{.folder = path, .files = {path + "/warpfold", path + "/memory"}};
  for (const auto& [kind, name] : kSinks) created->files.push_back(absl::StrCat(path, "/", name));
  leftovers = created;  // it stays: a signal may come at any time
  HandleEndings(DeleteAndEnd);
}

SocketFolder::~SocketFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  HandleEndings(SIG_DFL);
}

std::string TransportOf(const std::string& address) {
  return absl::StartsWith(address, "unix:") ? "unix" : "tcp";
}

absl::StatusOr<std::vector<Side>> StartSides(const Server& server, const BenchFlags& flags,
                                             const SocketFolder& folder) {
  if (folder.path().empty()) return absl::UnavailableError("no scratch folder can be made");
  std::vector<Side> sides;
  absl::StatusOr<Side> first = StartServer(server, flags, folder);
  if (!first.ok()) return first.status();
  const std::string transport = TransportOf(first->server.target());
  sides.push_back(*std::move(first));
  if (flags.generated) {
    sides.push_back({.name = "generated",
                     .server = sides.front().server,
                     .caller = CallerKind::kGenerated,
                     .pid = sides.front().pid});
  }
  if (!flags.baseline) return sides;
  const std::string executable = std::filesystem::read_symlink(kThisExecutable);
  for (const auto& [kind, name] : kSinks) {
    absl::StatusOr<Side> sink =
        Start(name, {executable, "bench-sink", name, "--listen", ListenAddress(transport, name, folder)});
    if (!sink.ok()) return sink.status();
    if (kind == SinkKind::kRawSocket) sink->caller = CallerKind::kRawSocket;
    sides.push_back(*std::move(sink));
  }
  return sides;
}

}  // namespace warpfold::cli
