// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that clients may name in a header instead of sending an array: memory that they registered, and
// arrays that stay on the device. Each is identified by a 128-bit random token, which acts as a capability:
// only a client that was given the token can use the memory.
//
// Threads: all methods from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/memory.h"
#include "kernels/types.h"
#include "server/core/clock.h"

namespace warpfold::server {

inline constexpr std::size_t kTokenBytes = 16;

// What the bytes of an array are.
struct ElementLayout {
  kernels::ElementType type;
  kernels::ElementShape shape;
};

// A part of a Memory, or several parts whose bytes follow each other: an array that lies on several devices.
// It lives until nobody refers to it and no slot reads it.
class NamedMemory {
 public:
  struct Part {
    std::shared_ptr<const kernels::Memory> memory;
    std::uint64_t byte_offset = 0;
    std::uint64_t byte_count = 0;
  };

  // At least one part. If there is more than one, none of them is host memory.
  explicit NamedMemory(std::vector<Part> parts, std::optional<ElementLayout> layout = std::nullopt);
  // All of `memory`. `writable` are its bytes, if results may be written there.
  NamedMemory(std::shared_ptr<const kernels::Memory> memory, std::span<std::byte> writable);
  virtual ~NamedMemory() = default;
  NamedMemory(const NamedMemory&) = delete;
  NamedMemory& operator=(const NamedMemory&) = delete;

  const std::vector<Part>& parts() const { return parts_; }
  std::uint64_t byte_count() const { return byte_count_; }

  // The bytes from `byte_offset` on, as far as they lie together; none at the end.
  kernels::MemoryPart From(std::uint64_t byte_offset) const;
  // All of `byte_count` bytes.
  std::vector<kernels::MemoryPart> Range(std::uint64_t byte_offset, std::uint64_t byte_count) const;

  // Its bytes, if results may be written there; otherwise none. They are addresses of the device if the host
  // cannot read them.
  std::span<std::byte> writable() const { return writable_; }

  // Reserves bytes [begin, end) of writable() for results, until EndWriting(begin). False if one of them is
  // reserved already. From any thread.
  bool BeginWriting(std::uint64_t begin, std::uint64_t end) const;
  void EndWriting(std::uint64_t begin) const;

  // What elements an array has; none if the bytes may be anything.
  const std::optional<ElementLayout>& layout() const { return layout_; }

  // Whether its time to live is over, so that Find no longer returns it.
  virtual bool IsExpired(absl::Time) const { return false; }

  void Touch(absl::Time now) const { last_use_ns_ = absl::ToUnixNanos(now); }
  // When it was used last: `now`, while a reduction reads it.
  absl::Time LastUse(absl::Time now) const { return users_ > 0 ? now : absl::FromUnixNanos(last_use_ns_); }

  // The reference that a reduction holds: as long as there is a copy of it, `memory` is in use. `clock` must
  // outlive them.
  static std::shared_ptr<const NamedMemory> Use(std::shared_ptr<const NamedMemory> memory,
                                                const Clock& clock);

 private:
  std::vector<Part> parts_;       // constant
  std::uint64_t byte_count_ = 0;  // of all parts; constant
  const std::optional<ElementLayout> layout_;
  const std::span<std::byte> writable_;
  mutable std::atomic<std::int64_t> last_use_ns_ = 0;
  mutable std::atomic<int> users_ = 0;
  mutable std::mutex writing_mutex_;
  mutable std::map<std::uint64_t, std::uint64_t> writing_;  // guarded by writing_mutex_; ends by begin
};

// From the system's source of random bits.
std::string RandomToken();

class MemoryRegistry {
 public:
  explicit MemoryRegistry(std::function<std::string()> make_token = RandomToken)
      : make_token_(std::move(make_token)) {}

  // Returns the token by which clients name it from now on.
  std::string Add(std::shared_ptr<const NamedMemory> memory);
  // Forgets the name. Reductions that have found the memory go on with it.
  void Remove(const std::string& token);
  // NOT_FOUND (UNKNOWN_MEMORY), also if it has expired at `now`. `field` is what the error says of the
  // token's place in the request.
  absl::StatusOr<std::shared_ptr<const NamedMemory>> Find(const std::string& token, absl::Time now,
                                                          const char* field = "reference.token") const;

 private:
  const std::function<std::string()> make_token_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const NamedMemory>> named_;  // guarded by mutex_
};

}  // namespace warpfold::server
