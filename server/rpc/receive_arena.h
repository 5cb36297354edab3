// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory in blocks that gRPC receives into, so that it lies where a device can read it. While no block is
// free, gRPC's own memory serves.
//
// gRPC takes memory for what it reads from sockets by one function of a public header,
// grpc_event_engine::experimental::MemoryAllocator::MakeSlice. Once UseForReceiving has been called, requests
// of that function for kBlockBytes, which large reads are made of, get blocks; all others go on as they were
// (docs/adr/0040).
//
// Threads: any.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace warpfold::server {

class ReceiveArena {
 public:
  static constexpr std::size_t kBlockBytes = std::size_t{64} << 10;

  // RESOURCE_EXHAUSTED if the system has less memory. Whole pages; huge ones where it has them.
  static absl::StatusOr<std::unique_ptr<ReceiveArena>> Create(std::size_t bytes);
  ~ReceiveArena();
  ReceiveArena(const ReceiveArena&) = delete;
  ReceiveArena& operator=(const ReceiveArena&) = delete;

  std::span<const std::byte> memory() const { return {begin_, bytes_}; }

  // A block, kBlockBytes long, which nobody else has; null while all are taken. The one that was given back
  // last by this thread, if any: it is in the cache.
  std::byte* Take();
  void Give(std::byte* block);

 private:
  // Threads mostly find their blocks in a list of their own.
  static constexpr std::size_t kLists = 16;
  struct alignas(64) FreeList {
    std::mutex mutex;
    std::vector<std::byte*> blocks;  // guarded by mutex
  };

  ReceiveArena(std::byte* begin, std::size_t bytes);
  FreeList& OwnList();

  std::byte* const begin_;
  const std::size_t bytes_;
  std::array<FreeList, kLists> free_;
};

// False where the gRPC that this was built against has that function in its header alone: it is then part of
// gRPC's own code and stays what it is, so that an arena would lie idle (docs/adr/0067).
bool CanUseForReceiving();

// Has gRPC receive into the arena from now on, for as long as the process lives: messages may be let go late.
// At most once. Does nothing where that cannot be.
void UseForReceiving(std::unique_ptr<ReceiveArena> arena);

}  // namespace warpfold::server
