// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/receive_arena.h"

#include <grpc/event_engine/memory_allocator.h>
#include <grpc/slice.h>
#include <sys/mman.h>

#include <cstdint>

#include "absl/strings/str_cat.h"

#ifndef WARPFOLD_STATIC_GRPC
#include <dlfcn.h>
#endif

namespace warpfold::server {
namespace {

using grpc_event_engine::experimental::MemoryAllocator;
using grpc_event_engine::experimental::MemoryRequest;

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

std::atomic<ReceiveArena*> receiving = nullptr;

// A block that gRPC holds, and what its quota counts for it.
struct Lease {
  ReceiveArena& arena;
  std::byte* block;
  MemoryAllocator::Reservation reservation;

  static void End(void* lease) {
    const std::unique_ptr<Lease> ended(static_cast<Lease*>(lease));
    ended->arena.Give(ended->block);
  }
};

// Makes a slice of a block of the arena. Returns false if the arena has no free block: the caller then makes
// one as gRPC does. Unused if the build could not replace gRPC's function.
[[maybe_unused]] bool MakeSliceInArena(MemoryAllocator& allocator, MemoryRequest request, grpc_slice* slice) {
  ReceiveArena* const arena = receiving.load(std::memory_order_acquire);
  if (arena == nullptr || request.min() != ReceiveArena::kBlockBytes) return false;
  std::byte* const block = arena->Take();
  if (block == nullptr) return false;
  auto* const lease = new Lease{*arena, block, allocator.MakeReservation(request)};
  *slice = grpc_slice_new_with_user_data(block, ReceiveArena::kBlockBytes, &Lease::End, lease);
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ReceiveArena>> ReceiveArena::Create(std::size_t bytes) {
  const std::size_t whole = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  // Huge pages must be aligned: one more than needed is mapped, and the ends are given back.
  void* const mapped =
      mmap(nullptr, whole + kHugePageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there is no memory for ", whole, " bytes to receive into"));
  }
  auto* const bytes_mapped = static_cast<std::byte*>(mapped);
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(mapped) % kHugePageBytes;
  if (before > 0) munmap(mapped, before);
  munmap(bytes_mapped + before + whole, kHugePageBytes - before);
  std::unique_ptr<ReceiveArena> arena(new ReceiveArena(bytes_mapped + before, whole));
  madvise(arena->begin_, whole, MADV_HUGEPAGE);  // advice: it may fail
  // While another process shares the pages, a write may move one away from the address at which the device
  // reads it.
  if (madvise(arena->begin_, whole, MADV_DONTFORK) != 0) {
    return absl::ResourceExhaustedError("the system cannot keep memory from child processes");
  }
  return arena;
}

ReceiveArena::ReceiveArena(std::byte* begin, std::size_t bytes) : begin_(begin), bytes_(bytes) {
  const std::size_t blocks = bytes / kBlockBytes;
  for (FreeList& list : free_) list.blocks.reserve(blocks);  // a list may come to have them all
  for (std::size_t i = 0; i < blocks; ++i)
    free_[i * kLists / blocks].blocks.push_back(begin + i * kBlockBytes);
}

ReceiveArena::~ReceiveArena() { munmap(begin_, bytes_); }

ReceiveArena::FreeList& ReceiveArena::OwnList() {
  static std::atomic<std::size_t> threads = 0;
  thread_local const std::size_t own = threads.fetch_add(1, std::memory_order_relaxed) % kLists;
  return free_[own];
}

std::byte* ReceiveArena::Take() {
  FreeList& own = OwnList();
  const auto first = static_cast<std::size_t>(&own - free_.data());
  for (std::size_t i = 0; i < kLists; ++i) {
    FreeList& list = free_[(first + i) % kLists];
    const std::lock_guard lock(list.mutex);
    if (list.blocks.empty()) continue;
    std::byte* const block = list.blocks.back();
    list.blocks.pop_back();
    return block;
  }
  return nullptr;
}

void ReceiveArena::Give(std::byte* block) {
  FreeList& own = OwnList();
  const std::lock_guard lock(own.mutex);
  own.blocks.push_back(block);
}

bool CanUseForReceiving() {
#ifdef WARPFOLD_MAKE_SLICE
  return true;
#else
  return false;
#endif
}

void UseForReceiving(std::unique_ptr<ReceiveArena> arena) {
  receiving.store(arena.release(), std::memory_order_release);
}

}  // namespace warpfold::server

// In place of gRPC's function: an archive's callers are led here by the linker (--wrap, in CMakeLists.txt);
// those of a shared library find an executable's definition before their own. A member function is called as
// a function of the object's address.
#ifdef WARPFOLD_MAKE_SLICE
#ifdef WARPFOLD_STATIC_GRPC
#define WARPFOLD_REPLACES "__wrap_" WARPFOLD_MAKE_SLICE
#else
#define WARPFOLD_REPLACES WARPFOLD_MAKE_SLICE
#endif

namespace warpfold::server {

grpc_slice ReplacedMakeSlice(MemoryAllocator* allocator, MemoryRequest request) __asm__(WARPFOLD_REPLACES);

#ifdef WARPFOLD_STATIC_GRPC
grpc_slice OrdinaryMakeSlice(MemoryAllocator* allocator,
                             MemoryRequest request) __asm__("__real_" WARPFOLD_MAKE_SLICE);
#else
static grpc_slice OrdinaryMakeSlice(MemoryAllocator* allocator, MemoryRequest request) {
  static const auto ordinary =
      reinterpret_cast<decltype(&ReplacedMakeSlice)>(dlsym(RTLD_NEXT, WARPFOLD_MAKE_SLICE));
  return ordinary(allocator, request);
}
#endif

grpc_slice ReplacedMakeSlice(MemoryAllocator* allocator, MemoryRequest request) {
  grpc_slice slice;
  return MakeSliceInArena(*allocator, request, &slice) ? slice : OrdinaryMakeSlice(allocator, request);
}

}  // namespace warpfold::server
#endif
