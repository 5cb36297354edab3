// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory in blocks that gRPC receives into, so that it lies where a device can read it. While no block is
// free, gRPC's own memory is used.
//
// gRPC allocates memory for data from sockets with one function of a public header,
// grpc_event_engine::experimental::MemoryAllocator::MakeSlice. Once UseForReceiving has been called, its
// allocations of kBlockBytes, of which large reads consist, get blocks; all others are unchanged
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

  // RESOURCE_EXHAUSTED if the system has less memory. Whole pages; huge ones if it has them.
  static absl::StatusOr<std::unique_ptr<ReceiveArena>> Create(std::size_t bytes);
  ~ReceiveArena();
  ReceiveArena(const ReceiveArena&) = delete;
  ReceiveArena& operator=(const ReceiveArena&) = delete;

  std::span<const std::byte> memory() const { return {begin_, bytes_}; }

  // A block, kBlockBytes long, which nobody else has; null while all are taken. Preferably one that this
  // thread gave back recently, which is still in its cache.
  std::byte* Take();
  void Give(std::byte* block);

 private:
  // Threads mostly find their blocks in their own lists.
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

// False if the gRPC that this was built against has that function only in its header: the function is then
// part of gRPC's own code and cannot be replaced, so that an arena would not be used (docs/adr/0067).
bool CanUseForReceiving();

// Has gRPC receive into the arena from now on, for as long as the process lives, since messages may be
// released late. Call this at most once. Does nothing if this is not possible.
void UseForReceiving(std::unique_ptr<ReceiveArena> arena);

}  // namespace warpfold::server
