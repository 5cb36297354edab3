// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A memfd that another process has sent, and its bytes, mapped for reading, or for writing, too.
//
// Whoever is the last to have a memfd open or mapped waits while the kernel frees its pages, 0.15 s for each
// GiB, and nothing does that in parts. If its owner has left that is this process. So threads that serve
// nobody let go of memfds of more than kUnmappedBytes (foreign_descriptors.h, docs/adr/0135).
//
// Threads: one at a time.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "server/net/file_descriptor.h"

namespace warpfold::server {

// How much is unmapped at a time: 5 ms, for which the whole process waits if it wants to map anything.
inline constexpr std::size_t kUnmappedBytes = std::size_t{64} << 20;

class Memfd {
 public:
  Memfd() = default;
  // `owner`, whose memfd it is, lives until it is closed. What a client calls a memfd may be another file:
  // its close may take for ever.
  Memfd(FileDescriptor descriptor, std::shared_ptr<const uid_t> owner, bool is_memfd = true)
      : descriptor_(std::move(descriptor)),
        is_memfd_(is_memfd),
        open_(std::make_shared<const std::shared_ptr<const uid_t>>(std::move(owner))) {}
  Memfd(Memfd&&) = default;
  Memfd& operator=(Memfd&&) = default;
  // Closes it, elsewhere if that may take long.
  ~Memfd();

  int get() const { return descriptor_.get(); }
  bool is_open() const { return descriptor_.is_open(); }
  // Only the holder of a mapping may call this: the mapping keeps the file, so that closing it frees nothing
  // and cannot take long.
  void Close() {
    descriptor_ = FileDescriptor();
    open_ = nullptr;
  }
  // Expires once it is closed.
  std::weak_ptr<const void> open() const { return open_; }

 private:
  FileDescriptor descriptor_;
  bool is_memfd_ = true;
  std::shared_ptr<const std::shared_ptr<const uid_t>> open_;
};

class Mapping {
 public:
  Mapping() = default;
  // Maps the first `byte_count` bytes, at least one. Empty if the system does not map them.
  Mapping(const Memfd& memfd, std::uint64_t byte_count, bool is_writable = false);
  Mapping(Mapping&& other) noexcept
      : bytes_(std::exchange(other.bytes_, {})),
        is_writable_(other.is_writable_),
        is_of_large_file_(other.is_of_large_file_) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(is_writable_, other.is_writable_);
    std::swap(is_of_large_file_, other.is_of_large_file_);
    return *this;
  }
  // Unmaps what is left, on this thread.
  ~Mapping();

  std::span<const std::byte> bytes() const { return bytes_; }
  // The same, if they were mapped for writing; otherwise none.
  std::span<std::byte> writable() const { return is_writable_ ? bytes_ : std::span<std::byte>(); }

  // Unmaps the first part, except for the last one; false where only that is left, or nothing.
  bool UnmapNext();
  // Looks again how large the file is, which may have grown since it was mapped.
  void Measure(const Memfd& memfd);
  // Whether the end of the last part may take long.
  bool is_of_large_file() const { return is_of_large_file_; }

 private:
  std::span<std::byte> bytes_;
  bool is_writable_ = false;
  bool is_of_large_file_ = false;
};

// Unmaps what is left of the owner's memfd on a thread that serves nobody. What it returns expires once that
// is done.
std::weak_ptr<const void> UnmapElsewhere(Mapping mapping, uid_t owner);
// The same if the end of it may take long; otherwise unmaps it at once.
void Unmap(Mapping mapping, uid_t owner);

}  // namespace warpfold::server
