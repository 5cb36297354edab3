// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Arrays that stay in the device's memory, so that many reductions read an array that was sent once. Their
// memory is allocated when the server starts; an array takes a range of it until it is deleted, or no
// reduction has read it for its time to live, and until the last reduction that reads it has ended. If there
// are several devices, a large array is split into as many equal parts, and all devices reduce it together
// (ADR 88).
//
// An array's header reserves room before any of the array has come, and owners are names that clients choose.
// So room is also counted per party (party.h): a party that has more than half of the memory, or of the
// number of arrays, does not get the last eighth of it (ADR 32).
//
// Threads: all methods from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/memory.h"
#include "server/core/references/memory_registry.h"
#include "server/core/references/range_allocator.h"

namespace warpfold::server {

class ResidentArrays {
 public:
  // The number of arrays is limited, because each one takes some of the host's memory, time in every sweep,
  // and room in the single message that lists them all.
  static constexpr std::size_t kMaxArrays = 4096;

  // A device with less memory than this may keep no array at all: one party gets seven eighths of it, and an
  // array takes a multiple of RangeAllocator::kAlignment.
  static constexpr std::uint64_t kLeastBytes = 2 * RangeAllocator::kAlignment;

  struct Limits {
    // The most that arrays of one owner may take together, each a multiple of RangeAllocator::kAlignment.
    std::uint64_t owner_bytes = 0;
    // An array is split over several devices so that its parts have about this many bytes. This was not
    // measured: at 4 TB/s a GPU takes 16 us for them, and less would not be worth another launch.
    std::uint64_t part_bytes = std::uint64_t{64} << 20;
    absl::Duration default_time_to_live = absl::Minutes(10);
    absl::Duration max_time_to_live = absl::Hours(24);
  };

  // What a client requests room for.
  struct Request {
    std::string party;  // who asks
    std::string owner;  // in the client's words
    ElementLayout layout;
    std::uint64_t element_count = 0;
    std::uint64_t byte_count = 0;
    absl::Duration time_to_live;  // zero: the default
  };

  struct Info {
    std::uint64_t id = 0;  // counts arrays; a name for people, not a key
    Request request;
    absl::Duration age;
    absl::Duration expires_in;
  };

  struct Room {
    std::uint64_t bytes = 0;  // in all; 0 if the server keeps no arrays
    std::uint64_t free_bytes = 0;
    std::uint64_t largest_free_bytes = 0;
    std::size_t arrays = 0;  // including those that are arriving, or are deleted and still read
  };

  // `registry` must outlive it.
  explicit ResidentArrays(MemoryRegistry& registry) : registry_(registry) {}
  ~ResidentArrays();
  ResidentArrays(const ResidentArrays&) = delete;
  ResidentArrays& operator=(const ResidentArrays&) = delete;

  // Sets the memory to keep arrays in, of one device or of each of several, at least kLeastBytes each. Call
  // this before the first Reserve, at most once.
  void Open(std::vector<std::unique_ptr<kernels::Memory>> memories, const Limits& limits);

  // Reserves room for an array, perhaps the room of one that has expired. The array has no token yet; its
  // room becomes free when the last pointer to it is destroyed. UNIMPLEMENTED (NO_RESIDENT_ARRAYS),
  // RESOURCE_EXHAUSTED (RESIDENT_FULL, OWNER_QUOTA, or ARRAY_TOO_LARGE if there would be no room even if
  // everything else were deleted).
  absl::StatusOr<std::shared_ptr<const NamedMemory>> Reserve(const Request& request, absl::Time now);

  // The array is complete: returns its token.
  std::string Publish(const std::shared_ptr<const NamedMemory>& array, absl::Time now);

  // NOT_FOUND (UNKNOWN_MEMORY), also for an array that has expired. Reductions that have begun go on.
  absl::Status Delete(const std::string& token, absl::Time now);

  // Deletes arrays that have outlived their time to live; looks for them once a second at most.
  void Expire(absl::Time now);

  // Lists the arrays of one owner, or of all owners if `owner` is empty; oldest first.
  std::vector<Info> List(const std::string& owner, absl::Time now);
  // NOT_FOUND (UNKNOWN_MEMORY).
  absl::StatusOr<Info> Find(const std::string& token, absl::Time now) const;
  Room room() const;
  const Limits& limits() const { return limits_; }

 private:
  class Array;
  struct Pool;  // outlives the arrays that are still read

  void SweepLocked(absl::Time now, std::vector<std::shared_ptr<const Array>>* removed);

  MemoryRegistry& registry_;
  mutable std::mutex mutex_;
  std::shared_ptr<Pool> pool_;                                     // null without Open
  std::map<std::string, std::shared_ptr<const Array>> published_;  // guarded by mutex_; by token
  absl::Time next_sweep_ = absl::InfinitePast();                   // guarded by mutex_
  Limits limits_;
};

}  // namespace warpfold::server
