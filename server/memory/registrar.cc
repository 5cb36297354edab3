// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/memory/registrar.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"

namespace warpfold::server {
namespace {

// This is for all connections together. Linux allows a process 65,530 (vm.max_map_count), and it needs some
// itself.
constexpr std::size_t kMaxMappings = 4096;

// The bytes of registered memory, if results may be written there.
std::span<std::byte> WritableOf(const Registrar::Registration& registration) {
  const auto* const of_gpu = std::get_if<kernels::ProcessMemory>(&registration.source);
  if (of_gpu == nullptr) return registration.mapping.writable();
  if (!of_gpu->writable) return {};
  return {const_cast<std::byte*>(registration.memory->data()), registration.memory->size()};
}

absl::Status BadMemory(absl::string_view what) {
  return kernels::Error(absl::StatusCode::kInvalidArgument, reason::kBadMemory, what);
}

// Whether all bytes of the file are allocated. They stay once it is sealed against holes. Reading others
// could end this process (SIGBUS), or takes memory that is charged to it: if its control group has none left,
// it is killed.
absl::Status CheckAllocated(int fd) {
  constexpr std::uint64_t kStatBlockBytes = 512;  // stat(2)
  struct stat file = {};
  if (fstat(fd, &file) != 0) return BadMemory("the memfd has no size");
  if (static_cast<std::uint64_t>(file.st_blocks) * kStatBlockBytes <
      static_cast<std::uint64_t>(file.st_size)) {
    return BadMemory("not all bytes of the memfd are allocated");
  }
  return absl::OkStatus();
}

// Whether the file can never become shorter, and its first bytes can be registered. This does not wait for
// anybody: only sealing or truncating a memfd does (memfd_sealer.h).
absl::Status CheckMemfd(int fd, std::uint64_t byte_count) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) return BadMemory("the descriptor is not of a memfd that can be sealed");
  if ((seals & F_SEAL_SHRINK) == 0) return BadMemory("the memfd is not sealed against shrinking");
  // If somebody punches a hole into huge pages (hugetlbfs), there may be no page left to fill it again, and
  // reading there would end this process.
  struct statfs system = {};
  if (fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC) {
    return BadMemory("the memfd must not be of huge pages");
  }
  struct stat file = {};
  if (fstat(fd, &file) != 0) return BadMemory("the memfd has no size");
  if (byte_count == 0 || byte_count > static_cast<std::uint64_t>(file.st_size)) {
    return BadMemory(absl::StrCat("byte_count must be 1 to the memfd's size of ", file.st_size));
  }
  const bool seals_holes = (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0;
  if ((seals & F_SEAL_SEAL) != 0 && (!seals_holes || (seals & F_SEAL_GROW) == 0)) {
    return BadMemory(
        "the server cannot seal the memfd against holes: F_SEAL_SEAL without F_SEAL_FUTURE_WRITE and "
        "F_SEAL_GROW");
  }
  return CheckAllocated(fd);  // before a process is asked to seal it
}

absl::Status TooMuch(absl::string_view what, const char* limit, std::uint64_t value) {
  return kernels::Error(absl::StatusCode::kResourceExhausted, reason::kTooMuchMemory, what,
                        {{"limit", limit}, {"value", absl::StrCat(value)}});
}

// How soon to look again for memory that is still read, or unmapped elsewhere.
constexpr absl::Duration kReleaseAgain = absl::Milliseconds(50);

}  // namespace

bool Registrar::IsFair(std::uint64_t most, std::uint64_t left, std::uint64_t of_user) const {
  return !limits_.has_several_users || left >= most / 8 || of_user <= most / 2;
}

absl::Status Registrar::CheckRoom(std::uint64_t byte_count, uid_t user) {
  CollectUnread();
  std::size_t count = 0;
  std::size_t count_of_user = 1;
  std::uint64_t bytes = 0;
  std::uint64_t bytes_of_user = byte_count;
  for (const std::list<Registration>* registrations : {&waiting_, &registrations_, &given_back_}) {
    for (const Registration& registration : *registrations) {
      ++count;
      bytes += registration.byte_count;
      if (registration.user != user) continue;
      ++count_of_user;
      bytes_of_user += registration.byte_count;
    }
  }
  if (count >= kMaxMappings) {
    return TooMuch(absl::StrCat("there are ", kMaxMappings, " registrations already"), "registrations",
                   kMaxMappings);
  }
  const std::uint64_t left = limits_.max_bytes - bytes;
  if (byte_count > left) {
    return TooMuch(absl::StrCat("registered memory would exceed max_registered_bytes = ", limits_.max_bytes),
                   "max_registered_bytes", limits_.max_bytes);
  }
  constexpr absl::string_view kForOthers = "the user would have more than half, and the rest is for others";
  if (!IsFair(kMaxMappings, kMaxMappings - count - 1, count_of_user)) {
    return TooMuch(kForOthers, "registrations", kMaxMappings);
  }
  if (!IsFair(limits_.max_bytes, left - byte_count, bytes_of_user)) {
    return TooMuch(kForOthers, "max_registered_bytes", limits_.max_bytes);
  }
  return absl::OkStatus();
}

absl::Status Registrar::CheckHost(const Memfd& memfd, std::uint64_t byte_count, uid_t user) {
  if (absl::Status status = CheckMemfd(memfd.get(), byte_count); !status.ok()) return status;
  return CheckRoom(byte_count, user);
}

absl::Status Registrar::CheckGpu(const kernels::ProcessMemory& memory, uid_t user) {
  if (memory.byte_count == 0) return BadMemory("byte_count must be at least 1");
  if (absl::Status status = backend_.CheckOwner(memory); !status.ok()) return status;
  return CheckRoom(memory.byte_count, user);
}

absl::StatusOr<Registrar::Handle> Registrar::BeginHost(Memfd memfd, std::uint64_t byte_count, uid_t user,
                                                       Mapping writable) {
  writable.Measure(memfd);
  absl::Status status = CheckAllocated(memfd.get());
  if (status.ok()) status = CheckRoom(byte_count, user);
  if (!status.ok()) {
    Unmap(std::move(writable), user);
    return status;
  }
  return BeginWaiting(
      {.user = user, .byte_count = byte_count, .source = std::move(memfd), .mapping = std::move(writable)});
}

absl::StatusOr<Registrar::Handle> Registrar::BeginGpu(const kernels::ProcessMemory& memory, uid_t user) {
  if (absl::Status status = CheckGpu(memory, user); !status.ok()) return status;
  return BeginWaiting({.user = user, .byte_count = memory.byte_count, .source = memory});
}

Registrar::Handle Registrar::BeginWaiting(Registration registration) {
  waiting_bytes_ += registration.byte_count;
  return waiting_.insert(waiting_.end(), std::move(registration));
}

bool Registrar::WaitsForItsOwn(const Registration& waiting) const {
  const auto of_user = taken_.find(waiting.user);
  if (of_user == taken_.end() || of_user->second.leaving == 0) return false;
  const auto left = [](std::uint64_t most, std::uint64_t taken) { return most - std::min(most, taken); };
  const std::uint64_t bytes = waiting.byte_count;
  return !IsFair(limits_.max_bytes, left(limits_.max_bytes, registered_bytes_ + bytes),
                 of_user->second.bytes + bytes) ||
         !IsFair(kMaxMappings, left(kMaxMappings, count_ + 1), of_user->second.count + 1);
}

// There is room for everything that counts. Only memory that is being given back may take it, and then those
// who came first are served first, except for those that wait for their own.
bool Registrar::CanGoOn(const Registration& registration) const {
  if (registration.takes_room) return true;
  if (WaitsForItsOwn(registration)) return false;
  const auto has_room = [this](std::uint64_t bytes, std::size_t count) {
    return bytes <= limits_.max_bytes && count <= kMaxMappings;
  };
  if (has_room(registered_bytes_ + waiting_bytes_, count_ + waiting_.size())) return true;
  std::uint64_t bytes = registered_bytes_;
  std::size_t count = count_;
  for (const Registration& earlier : waiting_) {
    if (!WaitsForItsOwn(earlier)) {
      bytes += earlier.byte_count;
      ++count;
    }
    if (&earlier == &registration) break;
  }
  return has_room(bytes, count);
}

absl::Status Registrar::Open(Handle registration) {
  registrations_.splice(registrations_.end(), waiting_, registration);
  waiting_bytes_ -= registration->byte_count;
  registration->takes_room = true;
  registered_bytes_ += registration->byte_count;
  ++count_;
  Taken& of_user = taken_[registration->user];
  of_user.bytes += registration->byte_count;
  ++of_user.count;
  absl::StatusOr<std::unique_ptr<kernels::Memory>> memory;
  if (auto* const memfd = std::get_if<Memfd>(&registration->source)) {
    Mapping& mapping = registration->mapping;
    if (mapping.bytes().empty()) mapping = Mapping(*memfd, registration->byte_count);
    if (mapping.bytes().empty()) return BadMemory("the memfd cannot be mapped");
    memfd->Close();
    memory = backend_.BeginRegister(mapping.bytes(), !mapping.writable().empty());
  } else {
    memory = backend_.Open(std::get<kernels::ProcessMemory>(registration->source));
  }
  if (memory.ok()) registration->memory = *std::move(memory);
  return memory.status();
}

absl::StatusOr<bool> Registrar::RegisterNext(Handle registration) {
  if (registration->memory == nullptr) {
    if (absl::Status status = Open(registration); !status.ok()) return status;
  }
  const absl::StatusOr<bool> has_more = registration->memory->RegisterNext();
  if (!has_more.ok() || *has_more) return has_more;
  registration->named = std::make_shared<const NamedMemory>(registration->memory, WritableOf(*registration));
  registration->token = registry_.Add(registration->named);
  return false;
}

void Registrar::Unregister(Handle registration) {
  registry_.Remove(registration->token);
  if (registration->takes_room) {
    given_back_.splice(given_back_.end(), registrations_, registration);
  } else {
    Unmap(std::move(registration->mapping), registration->user);
    waiting_bytes_ -= registration->byte_count;
    waiting_.erase(registration);
  }
}

void Registrar::CollectUnread() {
  for (auto next = given_back_.begin(); next != given_back_.end();) {
    const auto registration = next++;
    // The registry has forgotten it: no new reader can appear, so that a count of one stays one.
    if (registration->named.use_count() <= 1) {
      ++taken_[registration->user].leaving;
      releases_.splice(releases_.end(), given_back_, registration);
    }
  }
}

absl::Duration Registrar::ReleaseNext() {
  CollectUnread();
  leaving_.remove_if([this](const Leaving& leaving) {
    if (!leaving.rest.expired()) return false;
    Forget(leaving.byte_count, leaving.user);
    return true;
  });
  if (!releases_.empty() && !ReleasePart(releases_.front())) releases_.pop_front();
  if (!releases_.empty()) return absl::ZeroDuration();
  return given_back_.empty() && leaving_.empty() ? absl::InfiniteDuration() : kReleaseAgain;
}

bool Registrar::ReleasePart(Registration& registration) {
  registration.named = nullptr;
  if (registration.memory != nullptr) {
    if (registration.memory->UnregisterNext()) return true;
    registration.memory = nullptr;
  }
  if (registration.mapping.UnmapNext()) return true;
  if (registration.mapping.is_of_large_file()) {
    leaving_.push_back({registration.user, registration.byte_count,
                        UnmapElsewhere(std::move(registration.mapping), registration.user)});
  } else {
    registration.mapping = Mapping();
    Forget(registration.byte_count, registration.user);
  }
  return false;
}

void Registrar::Forget(std::uint64_t byte_count, uid_t user) {
  registered_bytes_ -= byte_count;
  --count_;
  const auto of_user = taken_.find(user);
  of_user->second.bytes -= byte_count;
  --of_user->second.leaving;
  if (--of_user->second.count == 0) taken_.erase(of_user);
}

}  // namespace warpfold::server
