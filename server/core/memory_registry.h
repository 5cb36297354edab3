// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that clients may name in a header instead of sending an array: what they registered, and arrays that
// stay on the device. A name is a token of 128 random bits, which only who was given it can know.
//
// Threads: all methods from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

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

// A part of a Memory. It lives until nobody names it and no slot reads it.
class NamedMemory {
 public:
  NamedMemory(std::shared_ptr<const kernels::Memory> memory, std::uint64_t byte_offset,
              std::uint64_t byte_count, std::optional<ElementLayout> layout = std::nullopt)
      : memory_(std::move(memory)), byte_offset_(byte_offset), byte_count_(byte_count), layout_(layout) {}
  virtual ~NamedMemory() = default;
  NamedMemory(const NamedMemory&) = delete;
  NamedMemory& operator=(const NamedMemory&) = delete;

  const kernels::Memory& memory() const { return *memory_; }
  std::uint64_t byte_offset() const { return byte_offset_; }  // in memory()
  std::uint64_t byte_count() const { return byte_count_; }
  // What elements an array has; none where the bytes may be anything.
  const std::optional<ElementLayout>& layout() const { return layout_; }

  // Whether its time to live is over, so that Find no longer returns it.
  virtual bool IsExpired(absl::Time) const { return false; }

  void Touch(absl::Time now) const { last_use_ns_ = absl::ToUnixNanos(now); }
  // When it was used last: `now`, while a reduction reads it.
  absl::Time LastUse(absl::Time now) const { return users_ > 0 ? now : absl::FromUnixNanos(last_use_ns_); }

  // What a reduction holds of it: as long as there is a copy of this, `memory` is in use. `clock` must
  // outlive them.
  static std::shared_ptr<const NamedMemory> Use(std::shared_ptr<const NamedMemory> memory,
                                                const Clock& clock);

 private:
  const std::shared_ptr<const kernels::Memory> memory_;
  const std::uint64_t byte_offset_;
  const std::uint64_t byte_count_;
  const std::optional<ElementLayout> layout_;
  mutable std::atomic<std::int64_t> last_use_ns_ = 0;
  mutable std::atomic<int> users_ = 0;
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
  // NOT_FOUND (UNKNOWN_MEMORY), also where it has expired at `now`.
  absl::StatusOr<std::shared_ptr<const NamedMemory>> Find(const std::string& token, absl::Time now) const;

 private:
  const std::function<std::string()> make_token_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const NamedMemory>> named_;  // guarded by mutex_
};

}  // namespace warpfold::server
