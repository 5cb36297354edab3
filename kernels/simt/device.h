// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A simulated device: it executes kernels on the calling thread of the host. Each thread of a block is a
// fiber, which runs until its next synchronisation; a seed chooses which one runs next. docs/simt.md explains
// how.
//
// Threads: one caller at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <source_location>
#include <span>
#include <string>
#include <vector>

namespace warpfold::kernels::simt {

// The parts that a barrier or an atomic operation of a kernel can lose, to show that the loss is found.
enum class Part { kBarrier, kRelease, kAcquire };

// A part of a synchronisation in the source of a kernel.
struct Site {
  std::string file;
  unsigned line = 0;
  Part part = Part::kBarrier;
  friend auto operator<=>(const Site&, const Site&) = default;
};

struct LaunchSpec {
  std::string kernel;  // its name
  unsigned blocks = 1;
  unsigned threads = 1;  // of a block
  std::size_t shared_bytes = 0;
  bool is_cooperative = false;  // all blocks are resident at once
};

class Executor;

class Device {
 public:
  // Seed 0 runs blocks, warps and lanes in ascending order, one block after the other: for reading and
  // stepping. Every other seed chooses its own order, and late or early visibility of writes.
  explicit Device(std::uint64_t seed);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Starts anew with `seed`. The same seed and the same launches after it give the same run.
  void Restart(std::uint64_t seed);

  // Memory that kernels share among blocks, aligned for any type, until the device is destroyed. Another
  // block sees what one block writes there after a release and an acquire, or in a later launch.
  std::byte* Allocate(std::size_t bytes);
  // Memory that only the host reads.
  std::byte* AllocateOfHost(std::size_t bytes);
  // Fills the memory with a byte, and keeps Scramble from changing it.
  void Set(std::byte* memory, std::byte value, std::size_t bytes);
  // Fills all memory that was not Set with values that the seed chooses: nothing may depend on them.
  void Scramble();

  // Executes `kernel` once for each thread. False if it did something that no kernel may do, which failure()
  // describes; from then on every launch is refused.
  bool Launch(const LaunchSpec& spec, const std::function<void()>& kernel);
  const std::string& failure() const { return failure_; }

  // Leaves out this part of a synchronisation in all later launches, or none if it is null.
  void Remove(const Site* site) { removed_ = site; }
  // Records in `sites`, if it is not null, what later launches could lose.
  void NoteSites(std::set<Site>* sites) { noted_ = sites; }

 private:
  friend class Executor;
  struct Memory {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;
    bool is_set = false;
  };

  std::uint64_t seed_;
  std::uint64_t launches_ = 0;  // since the seed
  std::vector<Memory> memory_;
  std::vector<std::unique_ptr<std::byte[]>> memory_of_host_;
  std::string failure_;
  const Site* removed_ = nullptr;
  std::set<Site>* noted_ = nullptr;
};

// What a kernel's thread asks of the launch that it is part of. vocabulary.h has these functions under CUDA's
// names.
using Where = std::source_location;

void SyncBlock(const Where& where);
void SyncGrid(const Where& where);
void Fence(const Where& where);

enum class WarpCall { kSync, kShuffle, kBallot, kAdd, kMax };
// Waits for the lanes of `mask`. Each gives a value; kShuffle returns that of lane `source`, kBallot a bit
// for each lane whose value is not 0, and the others the combination of all values.
std::uint64_t MeetWarp(WarpCall call, unsigned mask, std::uint64_t value, int source, const Where& where);

enum class Order { kRelaxed, kAcquireRelease };
// Atomically replaces the 32 bits at `address`, x, by change(x), and returns x.
unsigned ChangeAtomically(unsigned* address, Order order, const std::function<unsigned(unsigned)>& change,
                          const Where& where);

// Shared memory of this thread's block, the same at each call with the same key, 16-byte aligned; its initial
// content is arbitrary. Key null: the dynamic shared memory of the launch.
std::byte* SharedMemory(const void* key, std::size_t bytes);

}  // namespace warpfold::kernels::simt
