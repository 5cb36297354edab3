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

// Nobody can punch holes any more, and file->st_blocks counts what lies within the file's size alone.
// Mappings that clients have stay writable.
absl::Status KeepHolesOut(int fd, int seals, struct stat* file) {
  constexpr int kAgainstHoles = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;
  // With F_SEAL_GROW nothing more is allocated beyond the end (FALLOC_FL_KEEP_SIZE), where it would make up
  // for holes in our count.
  const int missing = ((seals & kAgainstHoles) == 0 ? F_SEAL_FUTURE_WRITE : 0) |
                      ((seals & F_SEAL_GROW) == 0 ? F_SEAL_GROW : 0);
  if (missing != 0 && (seals & F_SEAL_SEAL) != 0) {
    return BadMemory(
        "the server cannot seal the memfd against holes: F_SEAL_SEAL without F_SEAL_FUTURE_WRITE and "
        "F_SEAL_GROW");
  }
  const bool is_sealed = missing == 0 || fcntl(fd, F_ADD_SEALS, missing) == 0;
  // This frees what had been allocated there before.
  if (!is_sealed || ftruncate(fd, file->st_size) != 0 || fstat(fd, file) != 0) {
    return BadMemory("the server cannot seal the memfd against holes: it must be open for writing");
  }
  return absl::OkStatus();
}

// Whether the file can never become shorter, and its bytes are there and stay. Reading others could end this
// process (SIGBUS), or takes memory that is accounted to it: where its control group has none, it is killed.
absl::Status CheckMemfd(int fd, std::uint64_t byte_count) {
  constexpr std::uint64_t kStatBlockBytes = 512;  // stat(2)
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
  if (absl::Status status = KeepHolesOut(fd, seals, &file); !status.ok()) return status;
  if (static_cast<std::uint64_t>(file.st_blocks) * kStatBlockBytes <
      static_cast<std::uint64_t>(file.st_size)) {
    return BadMemory("not all bytes of the memfd are allocated");
  }
  return absl::OkStatus();
}

// Unmaps what a Memory was made of, after that has been destroyed.
struct Unmap {
  void* address;
  std::uint64_t bytes;
  void operator()(const kernels::Memory* memory) const {
    delete memory;
    munmap(address, bytes);
  }
};

}  // namespace

absl::Status Registrar::CheckRoom(std::uint64_t byte_count) {
  Bury();  // what was given back just now makes room
  if (registrations_.size() + given_back_.size() >= kMaxMappings) {
    return kernels::Error(absl::StatusCode::kResourceExhausted, reason::kTooMuchMemory,
                          absl::StrCat("there are ", kMaxMappings, " registrations already"),
                          {{"limit", "registrations"}, {"value", absl::StrCat(kMaxMappings)}});
  }
  if (byte_count <= max_bytes_ - registered_bytes_) return absl::OkStatus();
  return kernels::Error(absl::StatusCode::kResourceExhausted, reason::kTooMuchMemory,
                        absl::StrCat("registered memory would exceed max_registered_bytes = ", max_bytes_),
                        {{"limit", "max_registered_bytes"}, {"value", absl::StrCat(max_bytes_)}});
}

absl::StatusOr<std::string> Registrar::RegisterHost(const FileDescriptor& memfd, std::uint64_t byte_count) {
  if (absl::Status status = CheckMemfd(memfd.get(), byte_count); !status.ok()) return status;
  if (absl::Status status = CheckRoom(byte_count); !status.ok()) return status;
  void* const address = mmap(nullptr, byte_count, PROT_READ, MAP_SHARED, memfd.get(), 0);
  if (address == MAP_FAILED) return BadMemory("the memfd cannot be mapped");
  absl::StatusOr<std::unique_ptr<kernels::Memory>> memory =
      backend_.Register(std::span(static_cast<const std::byte*>(address), byte_count));
  if (!memory.ok()) {
    munmap(address, byte_count);
    return memory.status();
  }
  return Name(std::shared_ptr<const kernels::Memory>((*memory).release(), Unmap{address, byte_count}));
}

absl::StatusOr<std::string> Registrar::RegisterGpu(const kernels::ProcessMemory& memory) {
  if (memory.byte_count == 0) return BadMemory("byte_count must be at least 1");
  if (absl::Status status = CheckRoom(memory.byte_count); !status.ok()) return status;
  if (prober_ != nullptr) {
    if (absl::Status status = prober_->Probe(memory); !status.ok()) return status;
  }
  absl::StatusOr<std::unique_ptr<kernels::Memory>> opened = backend_.Open(memory);
  if (!opened.ok()) return opened.status();
  return Name(*std::move(opened));
}

std::string Registrar::Name(std::shared_ptr<const kernels::Memory> memory) {
  const std::uint64_t bytes = memory->size();
  std::vector<NamedMemory::Part> parts = {{.memory = std::move(memory), .byte_count = bytes}};
  auto named = std::make_shared<const NamedMemory>(std::move(parts));
  std::string token = registry_.Add(named);
  registered_bytes_ += bytes;
  ++count_;
  registrations_.push_back({token, std::move(named)});
  return token;
}

void Registrar::Unregister(const std::string& token) {
  registry_.Remove(token);
  const auto found = std::find_if(registrations_.begin(), registrations_.end(),
                                  [&](const Registration& r) { return r.token == token; });
  if (found == registrations_.end()) return;
  given_back_.push_back(std::move(found->memory));
  registrations_.erase(found);
}

// The registry has forgotten it: no new reader can appear, so that a count of one stays one.
bool Registrar::Bury() {
  std::erase_if(given_back_, [this](std::shared_ptr<const NamedMemory>& memory) {
    if (memory.use_count() > 1) return false;
    registered_bytes_ -= memory->byte_count();
    --count_;
    return true;
  });
  return !given_back_.empty();
}

}  // namespace warpfold::server
