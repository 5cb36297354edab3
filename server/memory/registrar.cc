// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/memory/registrar.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"

namespace warpfold::server {
namespace {

// For all connections together. Linux allows a process 65,530 (vm.max_map_count), and it needs some itself.
constexpr std::size_t kMaxMappings = 4096;

absl::Status BadMemory(absl::string_view what) {
  return kernels::Error(absl::StatusCode::kInvalidArgument, reason::kBadMemory, what);
}

// Whether all bytes of the file are there. They stay once it is sealed against holes. Reading others could
// end this process (SIGBUS), or takes memory that is accounted to it: where its control group has none, it is
// killed.
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

// Whether the file can never become shorter, and its first bytes can be registered. Waits for nobody: only
// what seals or cuts a memfd does (memfd_sealer.h).
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

// Unmaps what a Memory was made of, after that has been destroyed.
struct Unmap {
  void* address;
  std::uint64_t bytes;
  void operator()(kernels::Memory* memory) const {
    delete memory;
    munmap(address, bytes);
  }
};

}  // namespace

bool Registrar::IsFair(std::uint64_t most, std::uint64_t left, std::uint64_t of_user) const {
  return !limits_.has_several_users || left >= most / 8 || of_user <= most / 2;
}

absl::Status Registrar::CheckRoom(std::uint64_t byte_count, uid_t user) {
  Bury();  // what was given back just now makes room
  const std::size_t count = registrations_.size() + given_back_.size();
  if (count >= kMaxMappings) {
    return TooMuch(absl::StrCat("there are ", kMaxMappings, " registrations already"), "registrations",
                   kMaxMappings);
  }
  const std::uint64_t left = limits_.max_bytes - registered_bytes_;
  if (byte_count > left) {
    return TooMuch(absl::StrCat("registered memory would exceed max_registered_bytes = ", limits_.max_bytes),
                   "max_registered_bytes", limits_.max_bytes);
  }
  std::size_t count_of_user = 1;
  std::uint64_t bytes_of_user = byte_count;
  for (const std::vector<Registration>* registrations : {&registrations_, &given_back_}) {
    for (const Registration& registration : *registrations) {
      if (registration.user != user) continue;
      ++count_of_user;
      bytes_of_user += registration.memory->byte_count();
    }
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

absl::Status Registrar::CheckHost(const FileDescriptor& memfd, std::uint64_t byte_count, uid_t user) {
  if (absl::Status status = CheckMemfd(memfd.get(), byte_count); !status.ok()) return status;
  return CheckRoom(byte_count, user);
}

absl::StatusOr<std::string> Registrar::BeginHost(const FileDescriptor& memfd, std::uint64_t byte_count,
                                                 uid_t user) {
  if (absl::Status status = CheckAllocated(memfd.get()); !status.ok()) return status;
  if (absl::Status status = CheckRoom(byte_count, user); !status.ok()) return status;
  void* const address = mmap(nullptr, byte_count, PROT_READ, MAP_SHARED, memfd.get(), 0);
  if (address == MAP_FAILED) return BadMemory("the memfd cannot be mapped");
  absl::StatusOr<std::unique_ptr<kernels::Memory>> memory =
      backend_.BeginRegister(std::span(static_cast<const std::byte*>(address), byte_count));
  if (!memory.ok()) {
    munmap(address, byte_count);
    return memory.status();
  }
  const std::shared_ptr<kernels::Memory> unfinished((*memory).release(), Unmap{address, byte_count});
  std::string token = Name(unfinished, user);
  registrations_.back().unfinished = unfinished;
  return token;
}

absl::StatusOr<bool> Registrar::RegisterNext(const std::string& token) {
  const auto found = Find(token);
  if (found == registrations_.end() || found->unfinished == nullptr) return false;
  const absl::StatusOr<bool> has_more = found->unfinished->RegisterNext();
  if (!has_more.ok() || !*has_more) found->unfinished = nullptr;
  return has_more;
}

absl::StatusOr<std::string> Registrar::RegisterGpu(const kernels::ProcessMemory& memory, uid_t user) {
  if (memory.byte_count == 0) return BadMemory("byte_count must be at least 1");
  if (absl::Status status = CheckRoom(memory.byte_count, user); !status.ok()) return status;
  if (prober_ != nullptr) {
    if (absl::Status status = prober_->Probe(memory); !status.ok()) return status;
  }
  absl::StatusOr<std::unique_ptr<kernels::Memory>> opened = backend_.Open(memory);
  if (!opened.ok()) return opened.status();
  return Name(*std::move(opened), user);
}

std::string Registrar::Name(std::shared_ptr<const kernels::Memory> memory, uid_t user) {
  const std::uint64_t bytes = memory->size();
  std::vector<NamedMemory::Part> parts = {{.memory = std::move(memory), .byte_count = bytes}};
  auto named = std::make_shared<const NamedMemory>(std::move(parts));
  std::string token = registry_.Add(named);
  registered_bytes_ += bytes;
  ++count_;
  registrations_.push_back({user, token, nullptr, std::move(named)});
  return token;
}

std::vector<Registrar::Registration>::iterator Registrar::Find(const std::string& token) {
  return std::find_if(registrations_.begin(), registrations_.end(),
                      [&](const Registration& registration) { return registration.token == token; });
}

void Registrar::Unregister(const std::string& token) {
  registry_.Remove(token);
  const auto found = Find(token);
  if (found == registrations_.end()) return;
  given_back_.push_back(std::move(*found));
  registrations_.erase(found);
}

// The registry has forgotten it: no new reader can appear, so that a count of one stays one.
bool Registrar::Bury() {
  std::erase_if(given_back_, [this](const Registration& registration) {
    if (registration.memory.use_count() > 1) return false;
    registered_bytes_ -= registration.memory->byte_count();
    --count_;
    return true;
  });
  return !given_back_.empty();
}

}  // namespace warpfold::server
