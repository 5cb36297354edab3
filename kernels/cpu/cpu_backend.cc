// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/cpu_backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "kernels/cpu/completion.h"
#include "kernels/cpu/costs.h"
#include "kernels/cpu/group_times.h"
#include "kernels/cpu/range_job.h"
#include "kernels/cpu/segment_job.h"
#include "kernels/cpu/tasks.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/tuning.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"

namespace warpfold::kernels::cpu {
namespace {

// Slots of at least one huge page get huge pages if the system has them: with pages of 4 KiB, finding pages
// took a fifth of the memory's bandwidth.
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kHugePageBytes = 2 << 20;

void* AllocatePages(std::size_t bytes) {
  const std::size_t page_bytes = bytes < kHugePageBytes ? kPageBytes : kHugePageBytes;
  const std::size_t whole_pages = (bytes + page_bytes - 1) / page_bytes * page_bytes;
  void* const memory = std::aligned_alloc(page_bytes, whole_pages);
  if (memory == nullptr || page_bytes == kPageBytes) return memory;
  madvise(memory, whole_pages, MADV_HUGEPAGE);  // advice: it may fail
  return memory;
}

// What the slots of a backend have in common.
struct Shared {
  const InstructionSet& isa;
  Costs costs = {};
  ThreadPool pool;
};

// The host's own memory, or memory that this object allocated.
class CpuMemory : public Memory {
 public:
  explicit CpuMemory(std::span<const std::byte> bytes) : Memory(bytes, true), owned_(nullptr, std::free) {}
  CpuMemory(void* owned, std::size_t bytes)
      : Memory({static_cast<const std::byte*>(owned), bytes}, true), owned_(owned, std::free) {}

  std::byte* writable() const { return static_cast<std::byte*>(owned_.get()); }

 private:
  const std::unique_ptr<void, void (*)(void*)> owned_;
};

class CpuSlot : public Slot {
 public:
  CpuSlot(const BackendOptions& options, Shared& shared)
      : bytes_(options.slot_bytes > 0 ? options.slot_bytes : kDefaultSlotBytes),
        inline_time_(absl::ToChronoNanoseconds(options.inline_time)),
        shared_(shared),
        memory_(AllocatePages(bytes_), std::free),
        results_(new (std::nothrow) std::uint64_t[ResultCount()]),
        range_(shared.isa),
        segments_(shared.isa, Results()) {}

  std::size_t bytes() const { return bytes_; }
  bool has_memory() const { return memory_ != nullptr && results_ != nullptr; }

  // Makes the system find the pages now: it may have promised more memory than it has, and anybody who asks
  // for too much should learn that at start, not while users wait.
  void TouchMemory() {
    std::memset(memory_.get(), 0, bytes_);
    std::fill_n(results_.get(), ResultCount(), 0);
  }

  std::span<std::byte> staging() override { return {static_cast<std::byte*>(memory_.get()), bytes_}; }
  std::uint64_t host_bytes() override { return HostBytesOfSlot(bytes_); }

  std::uint64_t Capacity(const ReductionPlan& reduction) const override {
    return bytes_ / reduction.leaf_bytes() * reduction.leaf_elements();
  }

  void WorkFor(std::uint64_t group) override { group_ = group; }
  void NotifyBy(std::function<void()> on_finished) override { end_.NotifyBy(std::move(on_finished)); }
  void Notify() override { end_.Notify(); }

  absl::Status Start(const ReductionPlan& reduction, std::uint64_t first_element,
                     std::uint64_t element_count) override {
    const HostPiece staged = staging().first(element_count * reduction.element_bytes());
    Reduce(reduction, first_element, element_count, {&staged, 1}, Source::kPieces);
    return absl::OkStatus();
  }

  // This thread reduces bytes in its cache where they lie; what it leaves to other threads is copied.
  bool Reads(HostPiece) const override { return true; }
  bool KeepsPieces() const override { return false; }

  absl::Status StartPieces(const ReductionPlan& reduction, std::uint64_t first_element,
                           std::uint64_t element_count, std::span<const HostPiece> pieces) override {
    Reduce(reduction, first_element, element_count, pieces, Source::kPieces);
    return absl::OkStatus();
  }

  std::uint64_t CapacityFrom(const ReductionPlan& reduction, const Memory&, std::uint64_t) const override {
    return ElementsInTime(reduction, CostOf::kRange);
  }
  std::uint64_t SegmentElementsFrom(const ReductionPlan& reduction, const Memory&,
                                    std::uint64_t) const override {
    return ElementsInTime(reduction, CostOf::kSegments);
  }

  absl::Status StartFrom(const ReductionPlan& reduction, std::uint64_t first_element,
                         std::uint64_t element_count, const Memory& memory,
                         std::uint64_t byte_offset) override {
    const HostPiece all(memory.data() + byte_offset, element_count * reduction.element_bytes());
    Reduce(reduction, first_element, element_count, {&all, 1}, Source::kMemory);
    return absl::OkStatus();
  }

  std::uint64_t SegmentCapacity(const ReductionPlan& reduction) const override {
    return segments_.Capacity(reduction);
  }

  absl::Status StartSegments(const ReductionPlan& reduction, const SegmentCut& cut) override {
    const HostPiece staged = staging().first(cut.ElementCount() * reduction.element_bytes());
    ReduceSegments(reduction, cut, {&staged, 1}, Source::kPieces);
    return absl::OkStatus();
  }

  absl::Status StartSegmentPieces(const ReductionPlan& reduction, const SegmentCut& cut,
                                  std::span<const HostPiece> pieces) override {
    ReduceSegments(reduction, cut, pieces, Source::kPieces);
    return absl::OkStatus();
  }

  absl::Status StartSegmentsFrom(const ReductionPlan& reduction, const SegmentCut& cut, const Memory& memory,
                                 std::uint64_t byte_offset) override {
    const HostPiece all(memory.data() + byte_offset, cut.ElementCount() * reduction.element_bytes());
    ReduceSegments(reduction, cut, {&all, 1}, Source::kMemory);
    return absl::OkStatus();
  }

  // A slot's bytes are few, and in this core's cache.
  absl::Status StartStore(const Memory& memory, std::uint64_t byte_offset,
                          std::uint64_t byte_count) override {
    const HostPiece staged = staging().first(byte_count);
    return StartStorePieces(memory, byte_offset, {&staged, 1});
  }

  absl::Status StartStorePieces(const Memory& memory, std::uint64_t byte_offset,
                                std::span<const HostPiece> pieces) override {
    work_ = Work::kStore;
    started_ = std::chrono::steady_clock::now();
    std::byte* to = static_cast<const CpuMemory&>(memory).writable() + byte_offset;
    for (const HostPiece piece : pieces) to = std::ranges::copy(piece, to).out;
    ended_ = std::chrono::steady_clock::now();
    return absl::OkStatus();
  }

  bool Finished() override { return end_.Finished(); }

  absl::StatusOr<SlotResult> Wait() override {
    end_.Wait();
    const absl::Duration took = absl::FromChrono(ended_ - started_);
    if (work_ == Work::kStore) return SlotResult{.state = {}, .copy = took, .kernel = {}};
    return SlotResult{.state = range_.Collect(), .copy = {}, .kernel = took};
  }

  absl::StatusOr<SegmentsResult> WaitSegments() override {
    end_.Wait();
    SegmentsResult result = segments_.Collect();
    result.kernel = absl::FromChrono(ended_ - started_);
    return result;
  }

 private:
  // How many elements that lie in memory one Start may have: whole leaves.
  std::uint64_t ElementsInTime(const ReductionPlan& reduction, CostOf of) const {
    const std::uint64_t in_time = shared_.costs.BytesIn(reduction, of, kTimeFromMemory);
    const std::uint64_t bytes = std::min<std::uint64_t>(std::max(in_time, bytes_), kMaxBytesFromMemory);
    return bytes / reduction.leaf_bytes() * reduction.leaf_elements();
  }

  // For segments.
  std::size_t ResultCount() const { return bytes_ / kSegmentResultShare / sizeof(std::uint64_t); }
  std::span<std::uint64_t> Results() const {
    return {results_.get(), results_ != nullptr ? ResultCount() : 0};
  }

  // Where the bytes of a Start lie: in pieces, such as staging(), that need not stay; or in memory that does
  // stay.
  enum class Source : std::uint8_t { kPieces, kMemory };

  void Reduce(const ReductionPlan& reduction, std::uint64_t first_element, std::uint64_t element_count,
              std::span<const HostPiece> pieces, Source source) {
    const std::uint64_t bytes = element_count * reduction.element_bytes();
    work_ = Work::kRange;
    started_ = std::chrono::steady_clock::now();
    range_.Plan(reduction, first_element, bytes, PieceCursor(pieces, staging().data()));
    RunTasks(reduction, bytes, source, source == Source::kPieces && Yields());
  }

  // There may be hundreds of Starts for one message, so none of them stays on this thread for long.
  void ReduceSegments(const ReductionPlan& reduction, const SegmentCut& cut,
                      std::span<const HostPiece> pieces, Source source) {
    work_ = Work::kSegments;
    started_ = std::chrono::steady_clock::now();
    segments_.Plan(reduction, cut, PieceCursor(pieces, staging().data()));
    RunTasks(reduction, cut.ElementCount() * reduction.element_bytes(), source, /*yields=*/false);
  }

  // Whether a range that was sent stays on this thread and leaves the pool to other groups. A range that lies
  // in memory does not: its caller starts one piece of it after the other.
  bool Yields() const { return shared_.pool.times().Yields(group_); }
  // Whether, besides this thread, at least one thread for every kBusyPart threads of the pool works now
  // (tuning.h).
  bool IsBusy() const { return (shared_.pool.times().working() - 1) * kBusyPart >= shared_.pool.size(); }

  std::size_t TaskCount() const { return work_ == Work::kRange ? range_.tasks() : segments_.tasks(); }
  void RunTask(std::size_t i) { work_ == Work::kRange ? range_.Run(i) : segments_.Run(i); }
  std::uint64_t BytesBefore(std::size_t task) const {
    return work_ == Work::kRange ? range_.BytesBefore(task) : segments_.BytesBefore(task);
  }
  void Stage(std::size_t first) {
    work_ == Work::kRange ? range_.Stage(first, staging().data()) : segments_.Stage(first, staging().data());
  }

  void RunTasks(const ReductionPlan& reduction, std::uint64_t bytes, Source source, bool yields) {
    const std::size_t done = RunInline(yields);
    // Less than a whole task says little.
    const std::uint64_t bytes_done = done == TaskCount() ? bytes : BytesBefore(done);
    if (bytes_done >= TaskBytes(reduction.operators().size()) / 2) {
      const CostOf of = work_ == Work::kRange ? CostOf::kRange : CostOf::kSegments;
      shared_.costs.Learn(reduction, of, ended_ - started_, bytes_done);
    }
    if (done == TaskCount()) return;
    if (source == Source::kPieces) Stage(done);
    HandOver(done);
  }

  // Runs tasks on this thread while there is time, and returns the first remaining one.
  std::size_t RunInline(bool yields) {
    const GroupWork work(shared_.pool.times(), group_);
    ended_ = std::chrono::steady_clock::now();
    std::size_t task = 0;
    while (task < TaskCount() &&
           (ended_ - started_ < inline_time_ || (yields && ended_ - started_ < kYieldingTime && IsBusy()))) {
      RunTask(task++);
      ended_ = std::chrono::steady_clock::now();
    }
    return task;
  }

  // Lets the pool run tasks [first, all).
  void HandOver(std::size_t first) {
    end_.Begin();
    shared_.pool.Run(group_, {.tasks = TaskCount() - first,
                              .run = [this, first](std::size_t task) { RunTask(first + task); },
                              .on_end = [this] { EndTasks(); },
                              .task_time = (ended_ - started_) / std::max<std::size_t>(first, 1)});
  }

  void EndTasks() {
    ended_ = std::chrono::steady_clock::now();  // Wait may come much later
    end_.End();
  }

  const std::size_t bytes_;
  const std::chrono::nanoseconds inline_time_;
  Shared& shared_;
  const std::unique_ptr<void, void (*)(void*)> memory_;
  // Not at the beginning of a page, unlike elements: if both are traversed at the same pace, reading takes a
  // quarter longer (addresses are compared by their last 12 bits until it is known whether a store comes
  // before).
  const std::unique_ptr<std::uint64_t[]> results_;
  std::uint64_t group_ = 0;

  // What was started last.
  enum class Work : std::uint8_t { kRange, kSegments, kStore };
  Work work_ = Work::kStore;
  RangeJob range_;
  SegmentJob segments_;
  std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point ended_;
  Completion end_;  // of the tasks that the pool runs
};

class CpuBackend : public Backend {
 public:
  CpuBackend(const InstructionSet& isa, int threads) : shared_{.isa = isa, .pool = ThreadPool(threads)} {}

  absl::Status Open(const BackendOptions& options, int threads) {
    if (shared_.pool.size() < threads) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the system allows ", shared_.pool.size(), " of ", threads, " threads to reduce on"));
    }
    std::vector<CpuSlot*> slots;
    for (int i = 0; i < options.slots; ++i) {
      auto slot = std::make_unique<CpuSlot>(options, shared_);
      if (!slot->has_memory()) {
        return absl::ResourceExhaustedError(
            absl::StrCat("there is no memory for ", options.slots, " slots of ", slot->bytes(), " bytes"));
      }
      slots.push_back(slot.get());
      slots_.push_back(std::move(slot));
    }
    // Memory is touched only once all slots have theirs, so that none is touched in vain.
    for (CpuSlot* slot : slots) slot->TouchMemory();
    return absl::OkStatus();
  }

  std::string name() const override { return "cpu"; }
  std::string device() const override { return "cpu"; }
  std::span<const std::unique_ptr<Slot>> slots() override { return slots_; }
  absl::Status fault() const override { return absl::OkStatus(); }

  absl::StatusOr<std::unique_ptr<Memory>> BeginRegister(std::span<const std::byte> bytes,
                                                        bool /*is_written*/) override {
    return std::make_unique<CpuMemory>(bytes);
  }

  absl::StatusOr<std::unique_ptr<Memory>> Open(const ProcessMemory&) override {
    return Error(absl::StatusCode::kUnimplemented, reason::kUnsupportedMemory,
                 "memory of a GPU needs a server with that GPU; this one reduces on the CPU");
  }

  absl::StatusOr<std::unique_ptr<Memory>> Allocate(int, std::uint64_t bytes) override {
    void* const memory = AllocatePages(bytes);
    if (memory == nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat("there is no memory for ", bytes, " bytes"));
    }
    std::memset(memory, 0, bytes);  // as in slots: the system finds the pages now
    return std::make_unique<CpuMemory>(memory, bytes);
  }

 private:
  std::vector<std::unique_ptr<Slot>> slots_;
  Shared shared_;  // after the slots: its threads end before they do
};

}  // namespace

std::uint64_t HostBytesOfSlot(std::size_t slot_bytes) {
  const std::size_t bytes = slot_bytes > 0 ? slot_bytes : kDefaultSlotBytes;
  return bytes + bytes / kSegmentResultShare;
}

absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(const BackendOptions& options,
                                                        const InstructionSet& isa) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int threads = options.threads > 0 ? options.threads : cores;
  auto backend = std::make_unique<CpuBackend>(isa, threads);
  if (absl::Status status = backend->Open(options, threads); !status.ok()) return status;
  return backend;
}

}  // namespace warpfold::kernels::cpu
