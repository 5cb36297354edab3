// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A Backend is what reduces arrays: a device, or several of the same kind, with a fixed number of slots. A
// slot has a staging buffer that the host fills, a twin of that buffer in the device's memory if that is not
// the host's, and its own queue (a CUDA stream). All of this is allocated when the backend is made: Start and
// Wait allocate neither pinned nor device memory. Arrays that lie in a Memory (memory.h) are reduced without
// staging.
//
// A caller that must not block starts a slot, goes on, and calls Finished() now and then, or asks to be
// notified of the end (Notify); a caller that may block just calls Wait.
//
// All backends give the same bits, unless the reduction names an algorithm: it must be one that Supports
// allows, and its bits may differ from all others. To write a backend, implement Slot and Backend, and add it
// to the contract suite in tests/kernels/ (contract_test.cc).
//
// Threads: Backend's methods may be called from any thread. A Slot belongs to one caller at a time
// (server/core/slots/slot_pool.h lends them out); distinct slots are independent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/memory.h"
#include "kernels/partial_state.h"
#include "kernels/reduction.h"
#include "kernels/segments.h"
#include "kernels/telemetry.h"

namespace warpfold::kernels {

struct SlotResult {
  // The state of the range that was started; nullopt after a StartStore, which reduces nothing.
  std::optional<PartialState> state;
  // How long it took to copy the bytes: to the device, or to the memory that a StartStore names. On a CPU
  // this is zero unless it was a StartStore: the little that a reduction copies there, such as leaves that
  // lie in two pieces, counts as `kernel`.
  absl::Duration copy;
  absl::Duration kernel;  // from the start of reducing to its end; on a CPU, with the waits for its threads
};

// A part of an array's bytes, anywhere in the host's memory.
using HostPiece = std::span<const std::byte>;

class Slot {
 public:
  // The most pieces that one StartPieces takes.
  static constexpr std::size_t kMaxPieces = 1024;

  virtual ~Slot() = default;

  // The device of the backend whose queue this slot is.
  virtual int device() const { return 0; }

  // Whether started work is mostly done when Start returns, as on a CPU, whose caches it leaves warm.
  virtual bool EndsInStart() const { return true; }

  // The most time that the device may take for a byte of the array and operator before it counts as hung:
  // many times that of its slowest kernel, since other processes may use the device, too. A simulated GPU
  // took 0.1 to 0.3 us on two busy cores, and up to 1.6 us for the textbook's kernels, which get more time
  // (server/core/slots).
  virtual absl::Duration MostTimePerByte() const { return absl::Microseconds(1); }

  // Where the host writes elements before Start. 16-byte aligned. Not to be touched between Start and
  // Wait.
  virtual std::span<std::byte> staging() = 0;
  // How many bytes of the host's memory the slot has taken: the staging buffer, and whatever else its work
  // needs.
  virtual std::uint64_t host_bytes() { return staging().size(); }

  // Sets the group, of those that share the backend, for which the slot works from now on: `group` is a
  // number. If starts have to queue for the same threads, each group gets the same time on them. Not to be
  // called between a Start and its Wait. A device that orders its work by itself ignores it.
  virtual void WorkFor(std::uint64_t /*group*/) {}

  // Sets the function that Notify causes to run. To be called at most once, before the first Start.
  virtual void NotifyBy(std::function<void()> on_finished) = 0;

  // Has the function given to NotifyBy run once, when the started work is done: on a thread of the device, or
  // immediately on this one, possibly too soon if the device cannot tell. It must return soon and must not
  // touch the slot. A device that fails may never run it: a caller that relies on it must also call
  // Finished() now and then. At most once between a Start and its Wait. It costs some microseconds, and a
  // caller that polls Finished() need not call it.
  virtual void Notify() = 0;

  // How many elements one Start can take: a positive multiple of reduction.leaf_elements().
  virtual std::uint64_t Capacity(const ReductionPlan& reduction) const = 0;

  // Begins to reduce the first `element_count` (1 to Capacity) elements in staging(), which are
  // elements [first_element, first_element + element_count) of the array, and returns without waiting.
  // `first_element` is a multiple of the leaf size; a range that ends inside a leaf must be the array's
  // last. Exactly one Wait follows each Start that returned OK.
  virtual absl::Status Start(const ReductionPlan& reduction, std::uint64_t first_element,
                             std::uint64_t element_count) = 0;

  // How many elements one StartFrom can take of `memory` from `byte_offset` on: a positive multiple of
  // reduction.leaf_elements(). Much more than Capacity if the device reduces them in place.
  virtual std::uint64_t CapacityFrom(const ReductionPlan& reduction, const Memory& memory,
                                     std::uint64_t byte_offset) const = 0;

  // As Start, over elements that lie in `memory` from `byte_offset` on (any alignment): 1 to CapacityFrom of
  // them. The memory is the host's, or that of this slot's device. staging() is not used. The memory must
  // live, and its bytes should stay as they are, until Wait has returned.
  virtual absl::Status StartFrom(const ReductionPlan& reduction, std::uint64_t first_element,
                                 std::uint64_t element_count, const Memory& memory,
                                 std::uint64_t byte_offset) = 0;

  // As StartFrom, over elements that lie in several `parts`, one after the other, of any of the backend's
  // devices: 1 to Capacity of them, which this slot's device fetches. UNIMPLEMENTED if there is only one
  // device.
  virtual absl::Status StartAcross(const ReductionPlan&, std::uint64_t /*first_element*/,
                                   std::uint64_t /*element_count*/, std::span<const MemoryPart> /*parts*/) {
    return absl::UnimplementedError("this backend has one device");
  }

  // Whether pieces may lie in these bytes of the host, outside of staging().
  virtual bool Reads(HostPiece /*bytes*/) const { return false; }

  // Whether pieces must stay as they are until Wait has returned. Those in staging() must always.
  virtual bool KeepsPieces() const { return true; }

  // As Start, over elements that lie in 1 to kMaxPieces `pieces`, one after the other: together they are the
  // bytes of the elements, and each is a part of staging() or of memory that the slot Reads, at any
  // alignment. A piece in staging() has a fixed place there: as many bytes precede it as are in the pieces
  // before it. The rest of staging() belongs to the slot until Wait has returned. The bytes must stay as they
  // are until Wait has returned, or only until StartPieces has returned if the slot does not keep pieces; the
  // list need not stay. UNIMPLEMENTED if the device takes no pieces.
  virtual absl::Status StartPieces(const ReductionPlan&, std::uint64_t /*first_element*/,
                                   std::uint64_t /*element_count*/, std::span<const HostPiece> /*pieces*/) {
    return absl::UnimplementedError("this device takes no pieces");
  }

  // Begins to copy the first `byte_count` bytes of staging() to `memory` (made by Allocate, for this slot's
  // device). The same rules hold as after Start.
  virtual absl::Status StartStore(const Memory& memory, std::uint64_t byte_offset,
                                  std::uint64_t byte_count) = 0;

  // The same for bytes in `pieces`, for which the rules of StartPieces hold: no more bytes than staging()
  // has.
  virtual absl::Status StartStorePieces(const Memory&, std::uint64_t /*byte_offset*/,
                                        std::span<const HostPiece> /*pieces*/) {
    return absl::UnimplementedError("this device takes no pieces");
  }

  // How many segments one StartSegments can take: at least 1. Their results lie in the slot's memory.
  virtual std::uint64_t SegmentCapacity(const ReductionPlan& reduction) const = 0;

  // Begins to reduce 1 to SegmentCapacity whole segments (segments.h), which lie one after the other in
  // staging() from its start on. For reductions that CheckSegments allows. What the cut refers to must stay
  // as it is until WaitSegments, which must follow exactly once after each StartSegments that returned OK.
  virtual absl::Status StartSegments(const ReductionPlan& reduction, const SegmentCut& cut) = 0;

  // As StartSegments, over elements that lie in `pieces`, for which the rules of StartPieces hold.
  virtual absl::Status StartSegmentPieces(const ReductionPlan&, const SegmentCut&,
                                          std::span<const HostPiece> /*pieces*/) {
    return absl::UnimplementedError("this device takes no pieces");
  }

  // How many elements the segments of one StartSegmentsFrom can have together: more than CapacityFrom if the
  // device reduces segments in place that begin at any element, or fewer if they take longer than a range.
  virtual std::uint64_t SegmentElementsFrom(const ReductionPlan& reduction, const Memory& memory,
                                            std::uint64_t byte_offset) const {
    return CapacityFrom(reduction, memory, byte_offset);
  }

  // How many segments one StartSegmentsFrom can take if they have one length and the cut has `results`: at
  // least SegmentCapacity, and more if the device reduces them in place, so that its room for elements is
  // free for results.
  virtual std::uint64_t SegmentCapacityFrom(const ReductionPlan& reduction, const Memory&,
                                            std::uint64_t /*byte_offset*/) const {
    return SegmentCapacity(reduction);
  }

  // As StartSegments, over elements that lie in `memory` from `byte_offset` on, under the rules of StartFrom:
  // all segments together have at most SegmentElementsFrom elements, and there are at most SegmentCapacity,
  // or SegmentCapacityFrom, of them.
  virtual absl::Status StartSegmentsFrom(const ReductionPlan& reduction, const SegmentCut& cut,
                                         const Memory& memory, std::uint64_t byte_offset) = 0;

  // Whether Wait would return at once: the range is reduced, or the device has failed. Never blocks. Only
  // between a Start and its Wait, of ranges or segments.
  virtual bool Finished() = 0;

  // Blocks until the range is reduced. UNAVAILABLE (DEVICE_LOST) if the device failed; INTERNAL if it refused
  // only this work, and continues to serve.
  virtual absl::StatusOr<SlotResult> Wait() = 0;

  // The same after StartSegments.
  virtual absl::StatusOr<SegmentsResult> WaitSegments() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string name() const = 0;    // "cpu", "cuda" or "simt"
  virtual std::string device() const = 0;  // "cpu", "cuda:0 NVIDIA H200", "simt:7 (slow: ...)", or a list

  // How many devices there are; slots and memories name them by number, from 0 on. Each has slots.
  virtual int devices() const { return 1; }

  // Whether slots can reduce with this algorithm; always true for kAuto.
  virtual bool Supports(Algorithm algorithm) const { return algorithm == Algorithm::kAuto; }

  virtual std::span<const std::unique_ptr<Slot>> slots() = 0;

  // The device reads `bytes` until the Memory is destroyed. It may do so once RegisterNext has returned
  // false. Until then the caller may do other things between two parts, each of which takes some 6 ms, or 45
  // if its pages have never been touched. The bytes must stay mapped, and never shrink. Bytes that the system
  // does not allow to be registered are copied through the driver's own buffers: this is slower, but gives
  // the same bits. `is_written`: they are writable, and slots may write results there (SegmentCut::results).
  virtual absl::StatusOr<std::unique_ptr<Memory>> BeginRegister(std::span<const std::byte> bytes,
                                                                bool is_written) = 0;
  // Registers all of it at once.
  absl::StatusOr<std::unique_ptr<Memory>> Register(std::span<const std::byte> bytes,
                                                   bool is_written = false) {
    absl::StatusOr<std::unique_ptr<Memory>> memory = BeginRegister(bytes, is_written);
    while (memory.ok()) {
      const absl::StatusOr<bool> has_more = (*memory)->RegisterNext();
      if (!has_more.ok()) return has_more.status();
      if (!*has_more) break;
    }
    return memory;
  }

  // Whether slots read pieces only in memory that OpenPieces has opened to them: true for those of a GPU.
  virtual bool opens_pieces() const { return false; }

  // Lets slots take pieces that lie in `bytes` of the host (Slot::StartPieces). These are whole pages, which
  // must stay mapped until the backend is destroyed. At most once, before any slot is used. UNIMPLEMENTED if
  // there is nothing to open; RESOURCE_EXHAUSTED if the system does not let the device read so many bytes.
  virtual absl::Status OpenPieces(std::span<const std::byte>) {
    return absl::UnimplementedError("this device opens no memory for pieces");
  }

  // INVALID_ARGUMENT (BAD_MEMORY) if another process' memory is said to be on a GPU that is not one of the
  // devices. It does not touch the memory, so that it returns at once.
  virtual absl::Status CheckOwner(const ProcessMemory&) { return absl::OkStatus(); }

  // Opens device memory of another process. INVALID_ARGUMENT (BAD_MEMORY) if no device knows this memory, or
  // the range is not within it; UNIMPLEMENTED (UNSUPPORTED_MEMORY) if the backend's devices do not have such
  // memory. The memory stays while it is open, even if the other process ends.
  virtual absl::StatusOr<std::unique_ptr<Memory>> Open(const ProcessMemory& memory) = 0;

  // Allocates memory of one of the devices for arrays that stay. RESOURCE_EXHAUSTED if it has less.
  virtual absl::StatusOr<std::unique_ptr<Memory>> Allocate(int device, std::uint64_t bytes) = 0;

  // OK until the device has failed in a way that only a new process can repair. Cheap; poll it.
  virtual absl::Status fault() const = 0;

  // What the driver reports about each device now; nothing if there is no driver. May take as long as the
  // driver likes, even forever: call it on a thread that nobody waits for.
  virtual std::vector<DeviceTelemetry> Telemetry() { return {}; }
};

struct BackendOptions {
  int slots = 8;  // of each device
  // A multiple of 64 KiB, at least 64 KiB; 0 for a size that suits the device: large buffers for a bus, small
  // ones that stay in a core's cache for the CPU.
  std::size_t slot_bytes = 0;
  // How many threads the CPU backend has: 0 for one per core. Start reduces on the calling thread, whose
  // cache holds the bytes, for inline_time at most, and hands the rest to those threads; while groups compete
  // for them and a quarter of them are busy, a group that is not far behind stays on its own thread for some
  // milliseconds (docs/adr/0122).
  int threads = 0;
  absl::Duration inline_time = absl::Microseconds(200);
};

// Reduces `data` (a whole number of elements, any alignment) on the calling thread. Every backend must
// produce these bits. The server also calls it for arrays below the crossover
// (server/core/slots/crossover.h).
PartialState ReduceOnHost(const ReductionPlan& reduction, std::uint64_t first_element,
                          std::span<const std::byte> data);

}  // namespace warpfold::kernels
