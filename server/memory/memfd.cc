// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/memory/memfd.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

#include "server/net/foreign_descriptors.h"

namespace warpfold::server {
namespace {

// A file may also own blocks beyond its end (FALLOC_FL_KEEP_SIZE): they count, too.
bool IsLarge(int memfd) {
  constexpr std::uint64_t kStatBlockBytes = 512;  // stat(2)
  struct stat file = {};
  if (fstat(memfd, &file) != 0) return false;
  const std::uint64_t allocated = static_cast<std::uint64_t>(file.st_blocks) * kStatBlockBytes;
  return std::max(static_cast<std::uint64_t>(file.st_size), allocated) > kUnmappedBytes;
}

void UnmapBytes(std::span<std::byte> bytes) { munmap(bytes.data(), bytes.size()); }

}  // namespace

Memfd::~Memfd() {
  if (is_open() && (!is_memfd_ || IsLarge(get()))) CloseElsewhere(std::move(descriptor_), **open_, open_);
}

Mapping::Mapping(const Memfd& memfd, std::uint64_t byte_count, bool is_writable)
    : is_writable_(is_writable), is_of_large_file_(IsLarge(memfd.get())) {
  const int protection = is_writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* const address = mmap(nullptr, byte_count, protection, MAP_SHARED, memfd.get(), 0);
  if (address != MAP_FAILED) bytes_ = {static_cast<std::byte*>(address), byte_count};
}

Mapping::~Mapping() {
  if (!bytes_.empty()) UnmapBytes(bytes_);
}

void Mapping::Measure(const Memfd& memfd) { is_of_large_file_ = IsLarge(memfd.get()); }

bool Mapping::UnmapNext() {
  if (bytes_.size() <= kUnmappedBytes) return false;
  UnmapBytes(bytes_.first(kUnmappedBytes));
  bytes_ = bytes_.subspan(kUnmappedBytes);
  return bytes_.size() > kUnmappedBytes;
}

std::weak_ptr<const void> UnmapElsewhere(Mapping mapping, uid_t owner) {
  struct Last {
    std::shared_ptr<const void> done;
    Mapping mapping;  // is destroyed first
  };
  auto done = std::make_shared<const int>();
  std::weak_ptr<const void> expires = done;
  DestroyElsewhere(std::make_shared<const Last>(std::move(done), std::move(mapping)), owner);
  return expires;
}

void Unmap(Mapping mapping, uid_t owner) {
  if (!mapping.bytes().empty() && mapping.is_of_large_file()) UnmapElsewhere(std::move(mapping), owner);
}

}  // namespace warpfold::server
