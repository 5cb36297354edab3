// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/memory/memfd.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

#include "server/net/foreign_descriptors.h"

namespace warpfold::server {
namespace {

// Also one whose bytes lie after its end (FALLOC_FL_KEEP_SIZE).
bool IsLarge(int memfd) {
  constexpr std::uint64_t kStatBlockBytes = 512;  // stat(2)
  struct stat file = {};
  if (fstat(memfd, &file) != 0) return false;
  const std::uint64_t allocated = static_cast<std::uint64_t>(file.st_blocks) * kStatBlockBytes;
  return std::max(static_cast<std::uint64_t>(file.st_size), allocated) > kUnmappedBytes;
}

void Unmap(std::span<const std::byte> bytes) { munmap(const_cast<std::byte*>(bytes.data()), bytes.size()); }

}  // namespace

Memfd::~Memfd() {
  if (is_open() && (!is_memfd_ || IsLarge(get()))) CloseElsewhere(std::move(descriptor_), **open_, open_);
}

Mapping::Mapping(const Memfd& memfd, std::uint64_t byte_count) : is_of_large_file_(IsLarge(memfd.get())) {
  void* const address = mmap(nullptr, byte_count, PROT_READ, MAP_SHARED, memfd.get(), 0);
  if (address != MAP_FAILED) bytes_ = {static_cast<const std::byte*>(address), byte_count};
}

Mapping::~Mapping() {
  if (!bytes_.empty()) Unmap(bytes_);
}

bool Mapping::UnmapNext() {
  if (bytes_.size() <= kUnmappedBytes) return false;
  Unmap(bytes_.first(kUnmappedBytes));
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

}  // namespace warpfold::server
