// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/memory/memfd_sealer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "kernels/error.h"
#include "proto/error_reasons.h"
#include "server/memory/unix_socket.h"

namespace warpfold::server {
namespace {

struct Outcome {
  std::uint64_t number;  // the request's
  std::int64_t error;    // 0, an errno, or kNoProcess
};
constexpr std::int64_t kNoProcess = -1;

absl::Status ResultOf(std::int64_t error) {
  if (error == 0) return absl::OkStatus();
  if (error == kNoProcess) return NoProber("no process can be started");
  return kernels::Error(absl::StatusCode::kInvalidArgument, reason::kBadMemory,
                        "the server cannot seal the memfd against holes: it must be open for writing");
}

// In the process that only seals, or in the one that forks it where that fails.
void SendOutcome(const Outcome& outcome) { send(STDIN_FILENO, &outcome, sizeof(outcome), MSG_NOSIGNAL); }

}  // namespace

absl::StatusOr<std::shared_ptr<const Sealing>> MemfdSealer::Start(const FileDescriptor& memfd,
                                                                  std::shared_ptr<const void> with) {
  // A process that seals may hold the other end of the socket for ever, so that its end does not tell.
  if (!process_.IsRunning()) {
    Forget();
    if (absl::Status status = process_.Start(); !status.ok()) return status;
  }
  const std::uint64_t number = ++last_number_;
  const std::string request(reinterpret_cast<const char*>(&number), sizeof(number));
  if (!SendPacket(process_.socket(), request, memfd.get())) return NoProber("too many are checked at once");
  auto sealing = std::make_shared<Sealing>(Sealing{.result = std::nullopt, .with = std::move(with)});
  in_progress_[number] = sealing;
  return sealing;
}

void MemfdSealer::TakeResults() {
  if (fd() < 0) return;
  Outcome outcome = {};
  for (;;) {
    const ssize_t size = recv(fd(), &outcome, sizeof(outcome), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size != sizeof(outcome)) break;
    const auto found = in_progress_.find(outcome.number);
    if (found == in_progress_.end()) continue;
    found->second->result = ResultOf(outcome.error);
    found->second->with.reset();
    in_progress_.erase(found);
  }
  process_.Stop();
  Forget();
}

// The process has ended, and with it what it had not begun.
void MemfdSealer::Forget() {
  for (const auto& [number, sealing] : in_progress_) {
    sealing->result = NoProber("the process that does it has ended");
    sealing->with.reset();
  }
  in_progress_.clear();
}

int ServeSealing(const std::function<int(int memfd)>& seal) {
  EndWithParent();
  signal(SIGCHLD, SIG_IGN);  // nobody waits for those that seal: the kernel forgets them
  const FileDescriptor input(STDIN_FILENO);
  for (;;) {
    Packet packet;
    const Received received = Receive(input, &packet);
    if (received == Received::kNothingYet) {
      pollfd watched = {.fd = input.get(), .events = POLLIN, .revents = 0};
      poll(&watched, 1, -1);
      continue;
    }
    if (received != Received::kPacket || packet.bytes.size() != sizeof(Outcome::number)) return 0;
    Outcome outcome = {};
    std::memcpy(&outcome.number, packet.bytes.data(), sizeof(outcome.number));
    const pid_t process = fork();
    if (process > 0) continue;
    if (process == 0) EndWithParent();
    outcome.error = process == 0 ? seal(packet.descriptor.get()) : kNoProcess;
    SendOutcome(outcome);
    if (process == 0) _exit(0);
  }
}

int SealAgainstHoles(int memfd) {
  const int seals = fcntl(memfd, F_GET_SEALS);
  constexpr int kAgainstHoles = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;
  // With F_SEAL_GROW nothing more is allocated beyond the end (FALLOC_FL_KEEP_SIZE).
  const int missing = ((seals & kAgainstHoles) == 0 ? F_SEAL_FUTURE_WRITE : 0) |
                      ((seals & F_SEAL_GROW) == 0 ? F_SEAL_GROW : 0);
  struct stat file = {};
  const bool is_sealed = missing == 0 || fcntl(memfd, F_ADD_SEALS, missing) == 0;
  // The cut frees what had been allocated there before.
  const bool is_cut = is_sealed && fstat(memfd, &file) == 0 && ftruncate(memfd, file.st_size) == 0;
  return is_cut ? 0 : errno;
}

}  // namespace warpfold::server
