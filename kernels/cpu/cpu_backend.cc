// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/cpu_backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "kernels/cpu/host_reduce.h"
#include "kernels/cpu/segment_job.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/tuning.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"

namespace warpfold::kernels::cpu {
namespace {

// Slots of at least one huge page get such pages where the system has them: with those of 4 KiB, finding
// pages took a fifth of the memory's bandwidth.
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

// A subtree that one thread reduces in one go.
struct Task {
  NodePosition position;
  std::uint64_t first_byte = 0;
  std::uint64_t bytes = 0;
};

// The maximal subtrees of the range, those above kTaskLevel cut down to it.
std::vector<Task> CutIntoTasks(const ReductionPlan& reduction, std::uint64_t first_element,
                               std::uint64_t bytes) {
  std::vector<Task> tasks;
  const std::uint64_t leaf_count = (bytes + reduction.leaf_bytes() - 1) / reduction.leaf_bytes();
  std::uint64_t first_byte = 0;
  for (const NodePosition node : MaximalSubtrees(first_element / reduction.leaf_elements(), leaf_count)) {
    const std::uint32_t level = std::min(node.level, kTaskLevel);
    const std::uint32_t cut = node.level - level;
    for (std::uint64_t i = node.index << cut; i < (node.index + 1) << cut; ++i) {
      const std::uint64_t task_bytes = std::min(reduction.leaf_bytes() << level, bytes - first_byte);
      tasks.push_back({{level, i}, first_byte, task_bytes});
      first_byte += task_bytes;
    }
  }
  return tasks;
}

// The host's own memory, or what it allocated.
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
  CpuSlot(const BackendOptions& options, ThreadPool& pool, const InstructionSet& isa)
      : bytes_(options.slot_bytes > 0 ? options.slot_bytes : kDefaultSlotBytes),
        inline_time_(absl::ToChronoNanoseconds(options.inline_time)),
        pool_(pool),
        isa_(isa),
        memory_(AllocatePages(bytes_), std::free),
        segments_(isa, bytes_ / kSegmentResultShare) {}

  std::size_t bytes() const { return bytes_; }
  bool has_memory() const { return memory_ != nullptr; }

  // Has the system find the pages now: it may have promised more memory than it has, and whoever asks for
  // too much should learn it at start, not while users wait.
  void TouchMemory() { std::memset(memory_.get(), 0, bytes_); }

  std::span<std::byte> staging() override { return {static_cast<std::byte*>(memory_.get()), bytes_}; }

  std::uint64_t Capacity(const ReductionPlan& reduction) const override {
    return bytes_ / reduction.leaf_bytes() * reduction.leaf_elements();
  }

  void NotifyBy(std::function<void()> on_finished) override { on_finished_ = std::move(on_finished); }

  void Notify() override {
    {
      const std::lock_guard lock(mutex_);
      notifies_ = workers_left_ > 0;
      if (notifies_) return;
    }
    on_finished_();
  }

  absl::Status Start(const ReductionPlan& reduction, std::uint64_t first_element,
                     std::uint64_t element_count) override {
    Reduce(reduction, first_element, staging().first(element_count * reduction.element_bytes()));
    return absl::OkStatus();
  }

  std::uint64_t CapacityFrom(const ReductionPlan& reduction, const Memory&, std::uint64_t) const override {
    return std::max<std::uint64_t>(kMostBytesFromMemory / reduction.leaf_bytes(), 1) *
           reduction.leaf_elements();
  }

  absl::Status StartFrom(const ReductionPlan& reduction, std::uint64_t first_element,
                         std::uint64_t element_count, const Memory& memory,
                         std::uint64_t byte_offset) override {
    Reduce(reduction, first_element,
           std::span(memory.data() + byte_offset, element_count * reduction.element_bytes()));
    return absl::OkStatus();
  }

  std::uint64_t SegmentCapacity(const ReductionPlan& reduction) const override {
    return segments_.Capacity(reduction);
  }

  absl::Status StartSegments(const ReductionPlan& reduction, const SegmentCut& cut) override {
    ReduceSegments(reduction, cut, staging().data());
    return absl::OkStatus();
  }

  absl::Status StartSegmentsFrom(const ReductionPlan& reduction, const SegmentCut& cut, const Memory& memory,
                                 std::uint64_t byte_offset) override {
    ReduceSegments(reduction, cut, memory.data() + byte_offset);
    return absl::OkStatus();
  }

  // A slot's bytes are in this core's cache, and few.
  absl::Status StartStore(const Memory& memory, std::uint64_t byte_offset,
                          std::uint64_t byte_count) override {
    reduction_.reset();
    started_ = std::chrono::steady_clock::now();
    std::memcpy(static_cast<const CpuMemory&>(memory).writable() + byte_offset, memory_.get(), byte_count);
    ended_ = std::chrono::steady_clock::now();
    workers_left_ = 0;
    return absl::OkStatus();
  }

  bool Finished() override {
    const std::lock_guard lock(mutex_);
    return workers_left_ == 0;
  }

  absl::StatusOr<SlotResult> Wait() override {
    Await();
    const absl::Duration took = absl::FromChrono(ended_ - started_);
    if (!reduction_.has_value()) return SlotResult{.state = {}, .copy = took, .kernel = {}};
    PartialState state(*reduction_, first_element_);
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      state.AppendNode(tasks_[i].position, tasks_[i].bytes / reduction_->element_bytes(), StatesOf(i));
    }
    return SlotResult{.state = std::move(state), .copy = {}, .kernel = took};
  }

  absl::StatusOr<SegmentsResult> WaitSegments() override {
    Await();
    SegmentsResult result = segments_.Collect();
    result.kernel = absl::FromChrono(ended_ - started_);
    return result;
  }

 private:
  void Await() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return workers_left_ == 0; });
  }

  void ReduceSegments(const ReductionPlan& reduction, const SegmentCut& cut, const std::byte* data) {
    segments_.Plan(reduction, cut, data);
    is_range_ = false;
    RunTasks();
  }

  void Reduce(const ReductionPlan& reduction, std::uint64_t first_element, std::span<const std::byte> data) {
    is_range_ = true;
    reduction_ = reduction;
    first_element_ = first_element;
    data_ = data;
    tasks_ = CutIntoTasks(reduction, first_element, data.size());
    states_.resize(tasks_.size() * reduction.node_bytes());
    RunTasks();
  }

  void RunTasks() {
    started_ = ended_ = std::chrono::steady_clock::now();
    workers_left_ = 0;  // no worker runs yet
    HandOver(ReduceInline());
  }
  std::size_t TaskCount() const { return is_range_ ? tasks_.size() : segments_.tasks(); }

  // Reduces tasks on this thread while there is time, and returns the first that is left.
  std::size_t ReduceInline() {
    std::size_t task = 0;
    while (task < TaskCount() && ended_ - started_ < inline_time_) {
      RunTask(task++);
      ended_ = std::chrono::steady_clock::now();
    }
    return task;
  }

  // Shares tasks [first, all) out among the threads: each worker gets neighbouring ones.
  void HandOver(std::size_t first) {
    const std::size_t count = TaskCount() - first;
    const std::size_t workers = std::min<std::size_t>(pool_.size(), count);
    workers_left_ = workers;
    for (std::size_t worker = 0; worker < workers; ++worker) {
      pool_.Run(
          [this, begin = first + count * worker / workers, end = first + count * (worker + 1) / workers] {
            for (std::size_t i = begin; i < end; ++i) RunTask(i);
            EndWorker();
          });
    }
  }

  void EndWorker() {
    {
      const std::lock_guard lock(mutex_);
      if (--workers_left_ > 0) return;
      ended_ = std::chrono::steady_clock::now();  // Wait may come much later
      done_.notify_one();
      if (!std::exchange(notifies_, false)) return;
    }
    on_finished_();
  }

  std::span<std::byte> StatesOf(std::size_t task) {
    return std::span(states_).subspan(task * reduction_->node_bytes(), reduction_->node_bytes());
  }
  void RunTask(std::size_t i) {
    if (!is_range_) return segments_.Run(i);
    const Task& task = tasks_[i];
    ReduceNode(isa_, *reduction_, task.position, data_.subspan(task.first_byte, task.bytes), StatesOf(i));
  }

  const std::size_t bytes_;
  const std::chrono::nanoseconds inline_time_;
  ThreadPool& pool_;
  const InstructionSet& isa_;
  const std::unique_ptr<void, void (*)(void*)> memory_;
  std::function<void()> on_finished_;

  // What the current Start was given and has made of it.
  bool is_range_ = true;  // or segments
  SegmentJob segments_;
  std::optional<ReductionPlan> reduction_;  // none of a StartStore
  std::uint64_t first_element_ = 0;
  std::span<const std::byte> data_;
  std::vector<Task> tasks_;
  std::vector<std::byte> states_;
  std::chrono::steady_clock::time_point started_;
  std::mutex mutex_;
  std::condition_variable done_;
  // Guarded by mutex_ while workers run.
  std::size_t workers_left_ = 0;
  bool notifies_ = false;                        // when they are done
  std::chrono::steady_clock::time_point ended_;  // of the last worker
};

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(int threads) : pool_(threads) {}

  absl::Status Open(const BackendOptions& options, const InstructionSet& isa, int threads) {
    if (pool_.size() < threads) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the system allows ", pool_.size(), " of ", threads, " threads to reduce on"));
    }
    std::vector<CpuSlot*> slots;
    for (int i = 0; i < options.slots; ++i) {
      auto slot = std::make_unique<CpuSlot>(options, pool_, isa);
      if (!slot->has_memory()) {
        return absl::ResourceExhaustedError(
            absl::StrCat("there is no memory for ", options.slots, " slots of ", slot->bytes(), " bytes"));
      }
      slots.push_back(slot.get());
      slots_.push_back(std::move(slot));
    }
    // Only now: nothing is touched in vain.
    for (CpuSlot* slot : slots) slot->TouchMemory();
    return absl::OkStatus();
  }

  std::string name() const override { return "cpu"; }
  std::string device() const override { return "cpu"; }
  std::span<const std::unique_ptr<Slot>> slots() override { return slots_; }
  absl::Status fault() const override { return absl::OkStatus(); }

  absl::StatusOr<std::unique_ptr<Memory>> Register(std::span<const std::byte> bytes) override {
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
    std::memset(memory, 0, bytes);  // as slots do: the system finds the pages now
    return std::make_unique<CpuMemory>(memory, bytes);
  }

 private:
  std::vector<std::unique_ptr<Slot>> slots_;
  ThreadPool pool_;  // after the slots: its threads end before they do
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(const BackendOptions& options,
                                                        const InstructionSet& isa) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int threads = options.threads > 0 ? options.threads : cores;
  auto backend = std::make_unique<CpuBackend>(threads);
  if (absl::Status status = backend->Open(options, isa, threads); !status.ok()) return status;
  return backend;
}

}  // namespace warpfold::kernels::cpu
