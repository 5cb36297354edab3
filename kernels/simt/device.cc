// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/simt/device.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/simt/chance.h"
#include "kernels/simt/executor.h"

namespace warpfold::kernels::simt {
namespace {

constexpr unsigned kMaxThreadsOfBlock = 1024;
constexpr std::size_t kMaxSharedBytes = 227 << 10;

}  // namespace

Device::Device(std::uint64_t seed) : seed_(seed) {}

void Device::Restart(std::uint64_t seed) {
  seed_ = seed;
  launches_ = 0;
}

std::byte* Device::Allocate(std::size_t bytes) {
  const std::size_t size = (bytes + 15) / 16 * 16;
  memory_.push_back({std::unique_ptr<std::byte[]>(new std::byte[size]), size, false});
  Scramble();
  return memory_.back().bytes.get();
}

std::byte* Device::AllocateOfHost(std::size_t bytes) {
  memory_of_host_.push_back(std::make_unique<std::byte[]>(bytes));
  return memory_of_host_.back().get();
}

void Device::Set(std::byte* memory, std::byte value, std::size_t bytes) {
  std::memset(memory, static_cast<int>(value), bytes);
  for (Memory& part : memory_) part.is_set = part.is_set || part.bytes.get() == memory;
}

void Device::Scramble() {
  Chance chance(seed_);
  for (Memory& part : memory_) {
    if (part.is_set) continue;
    for (std::size_t i = 0; i < part.size; i += sizeof(std::uint64_t)) {
      const std::uint64_t word = chance.Next();
      std::memcpy(&part.bytes[i], &word, sizeof word);
    }
  }
}

bool Device::Launch(const LaunchSpec& spec, const std::function<void()>& kernel) {
  if (!failure_.empty()) return false;
  if (spec.blocks == 0 || spec.threads == 0 || spec.threads > kMaxThreadsOfBlock ||
      spec.shared_bytes > kMaxSharedBytes) {
    failure_ = absl::StrCat(spec.kernel, ": a launch of ", spec.blocks, " blocks of ", spec.threads,
                            " threads with ", spec.shared_bytes, " bytes of shared memory");
    return false;
  }
  ++launches_;
  Executor(*this, spec, kernel).Run();
  return failure_.empty();
}

void SyncBlock(const Where& where) { Executor::Running().SyncBlock(where); }
void SyncGrid(const Where& where) { Executor::Running().SyncGrid(where); }
void Fence(const Where& where) { Executor::Running().Fence(where); }
std::uint64_t MeetWarp(WarpCall call, unsigned mask, std::uint64_t value, int source, const Where& where) {
  return Executor::Running().MeetWarp(call, mask, value, source, where);
}
unsigned ChangeAtomically(unsigned* address, Order order, const std::function<unsigned(unsigned)>& change,
                          const Where& where) {
  return Executor::Running().ChangeAtomically(address, order, change, where);
}
std::byte* SharedMemory(const void* key, std::size_t bytes) {
  return Executor::Running().SharedMemory(key, bytes);
}

}  // namespace warpfold::kernels::simt
