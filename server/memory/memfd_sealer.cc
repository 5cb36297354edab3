// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/memory/memfd_sealer.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"
#include "server/net/unix_socket.h"

namespace warpfold::server {
namespace {

// How often to check whether a process that was given up has ended.
constexpr absl::Duration kLookAgain = absl::Seconds(1);

absl::Status CannotSeal(absl::string_view why) {
  return kernels::Error(absl::StatusCode::kInvalidArgument, reason::kBadMemory, why);
}

absl::Status ResultOf(int error) {
  if (error == 0) return absl::OkStatus();
  return CannotSeal(absl::StrCat("the server cannot seal the memfd against holes (", std::strerror(error),
                                 "): it must be open for writing"));
}

absl::Status TakesNoSeals() {
  return CannotSeal("the memfd takes no seals: somebody is writing to it, or allocating its bytes");
}

}  // namespace

MemfdSealer::~MemfdSealer() {
  for (Sealer& sealer : sealers_) {
    if (sealer.work != nullptr || sealer.is_given_up) sealer.process.Abandon();
  }
}

std::shared_ptr<Sealing> MemfdSealer::Start(Memfd memfd, uid_t user, absl::Time now) {
  auto sealing = std::make_shared<Sealing>(
      Sealing{.memfd = std::move(memfd), .user = user, .deadline = now + patience_});
  waiting_.push_back(sealing);
  if (Assign(sealing, now)) waiting_.pop_back();
  return sealing;
}

// There may be hundreds of processes, nearly all of which have nothing to say: one call asks all of them.
void MemfdSealer::Advance(absl::Time now) {
  std::vector<pollfd> watched;
  Watch(&watched);
  const bool is_known = poll(watched.data(), watched.size(), 0) >= 0;
  auto of_sealer = watched.begin();
  for (Sealer& sealer : sealers_) TakeResult(sealer, !is_known || (of_sealer++)->revents != 0, now);
  sealers_.remove_if([](Sealer& sealer) {
    return sealer.is_given_up ? !sealer.process.IsRunning() : !sealer.process.socket().is_open();
  });
  waiting_.remove_if([&](const std::shared_ptr<Sealing>& sealing) { return Assign(sealing, now); });
  for (Sealer& sealer : sealers_) {
    if (sealer.is_idle() && now - sealer.idle_since >= kLongestIdle) GiveUp(sealer);
  }
}

void MemfdSealer::GiveUp(Sealer& sealer) {
  sealer.is_given_up = true;
  sealer.process.Kill();
}

void MemfdSealer::TakeResult(Sealer& sealer, bool may_be_readable, absl::Time now) {
  if (sealer.is_given_up) return;
  int error = 0;
  const ssize_t size =
      may_be_readable ? recv(sealer.process.socket().get(), &error, sizeof(error), MSG_DONTWAIT) : -1;
  const bool is_silent = !may_be_readable || (size < 0 && (errno == EAGAIN || errno == EINTR));
  if (size == sizeof(error)) {
    if (sealer.work != nullptr) sealer.work->result = ResultOf(error);
    sealer.idle_since = now;
  } else if (!is_silent) {
    if (sealer.work != nullptr) sealer.work->result = NoProber("the process that does it has ended");
    sealer.process.Stop();
  } else if (sealer.work != nullptr && now >= sealer.work->deadline) {
    sealer.work->result = TakesNoSeals();
    GiveUp(sealer);
  } else {
    return;
  }
  sealer.work = nullptr;
}

MemfdSealer::Sealer* MemfdSealer::FindIdle(uid_t user, absl::Status* status) {
  std::size_t processes = 0;
  for (Sealer& sealer : sealers_) {
    if (sealer.user != user) continue;
    if (sealer.is_idle()) return &sealer;
    ++processes;
  }
  if (processes >= kProcessesOfOneUser) return nullptr;
  sealers_.push_back({.user = user, .process = ChildProcess(command_)});
  *status = sealers_.back().process.Start();
  if (status->ok()) return &sealers_.back();
  sealers_.pop_back();
  return nullptr;
}

bool MemfdSealer::Assign(const std::shared_ptr<Sealing>& sealing, absl::Time now) {
  const bool is_wanted = sealing.use_count() > 1;
  if (!is_wanted) return true;
  if (now >= sealing->deadline) {
    sealing->result = TakesNoSeals();
    return true;
  }
  absl::Status status;
  while (Sealer* const sealer = FindIdle(sealing->user, &status)) {
    if (SendPacket(sealer->process.socket(), "m", sealing->memfd.get())) {
      sealer->work = sealing;
      return true;
    }
    GiveUp(*sealer);  // it has ended: the next one is tried, or made
  }
  if (!status.ok()) sealing->result = status;
  return sealing->result.has_value();
}

absl::Time MemfdSealer::deadline(absl::Time now) const {
  absl::Time first = absl::InfiniteFuture();
  for (const Sealer& sealer : sealers_) {
    if (sealer.work != nullptr) first = std::min(first, sealer.work->deadline);
    if (sealer.is_given_up) first = std::min(first, now + kLookAgain);
    if (sealer.is_idle()) first = std::min(first, sealer.idle_since + kLongestIdle);
  }
  for (const std::shared_ptr<Sealing>& sealing : waiting_) first = std::min(first, sealing->deadline);
  return first;
}

void MemfdSealer::Watch(std::vector<pollfd>* watched) const {
  for (const Sealer& sealer : sealers_) {
    // -1 for a process that is given up, which poll(2) ignores.
    watched->push_back({.fd = sealer.process.socket().get(), .events = POLLIN, .revents = 0});
  }
}

int ServeSealing(const std::function<int(int memfd)>& seal) {
  EndWithParent();
  const FileDescriptor input(STDIN_FILENO);
  for (;;) {
    Packet packet;
    const Received received = Receive(input, &packet);
    if (received == Received::kNothingYet) {
      pollfd watched = {.fd = input.get(), .events = POLLIN, .revents = 0};
      poll(&watched, 1, -1);
      continue;
    }
    if (received != Received::kPacket) return 0;
    const int error = seal(packet.descriptor.get());
    if (send(input.get(), &error, sizeof(error), MSG_NOSIGNAL) != sizeof(error)) return 1;
  }
}

int SealAgainstHoles(int memfd) {
  const int seals = fcntl(memfd, F_GET_SEALS);
  if (seals < 0) return errno;
  constexpr int kAgainstHoles = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;
  // With F_SEAL_GROW nothing more is allocated beyond the end (FALLOC_FL_KEEP_SIZE).
  const int missing = ((seals & kAgainstHoles) == 0 ? F_SEAL_FUTURE_WRITE : 0) |
                      ((seals & F_SEAL_GROW) == 0 ? F_SEAL_GROW : 0);
  struct stat file = {};
  const bool is_sealed = missing == 0 || fcntl(memfd, F_ADD_SEALS, missing) == 0;
  // The truncation frees what was allocated there before.
  const bool is_cut = is_sealed && fstat(memfd, &file) == 0 && ftruncate(memfd, file.st_size) == 0;
  return is_cut ? 0 : errno;
}

}  // namespace warpfold::server
