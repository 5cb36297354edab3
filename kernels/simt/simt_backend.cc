// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/simt/simt_backend.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/completion.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cuda/device_reducer.h"
#include "kernels/cuda/launch.h"
#include "kernels/geometry.h"
#include "kernels/operators/table.h"

namespace warpfold::kernels::simt {
namespace {

// The most bytes of matrices that a slot reduces at once. The limit is low, because every block has a view of
// all shared memory.
constexpr std::size_t kReducerBytes = 128 << 10;

bool HasKernel(const ReductionPlan& reduction, const BoundOperator& op) {
  const Row& row = *Rows()[op.entry->reducer];
  return row.For(*op.entry, reduction.spec().element_type, reduction.spec().shape) != nullptr;
}

// The textbook has a kernel for whatever a reduction may request from it.
bool HasKernels(const ReductionPlan& reduction) {
  return !reduction.canonical() ||
         std::all_of(reduction.operators().begin(), reduction.operators().end(),
                     [&](const BoundOperator& op) { return HasKernel(reduction, op); });
}

// A slot of the CPU backend, and also a device for reductions that have kernels.
class SimtSlot : public Slot {
 public:
  SimtSlot(Slot& cpu, std::uint64_t seed, cpu::ThreadPool& pool) : cpu_(cpu), seed_(seed), pool_(pool) {}

  absl::Status Allocate() {
    reducer_.reset();
    device_ = std::make_unique<Device>(seed_);
    const UseDevice use(*device_);
    absl::StatusOr<std::unique_ptr<DeviceReducer>> reducer = DeviceReducer::Create(kReducerBytes);
    if (!reducer.ok()) return reducer.status();
    reducer_ = *std::move(reducer);
    return absl::OkStatus();
  }

  // What has no kernel works as on a CPU; threads of the pool run kernels.
  bool EndsInStart() const override { return is_on_cpu_ && cpu_.EndsInStart(); }

  std::span<std::byte> staging() override { return cpu_.staging(); }
  std::uint64_t host_bytes() override { return cpu_.host_bytes(); }

  void WorkFor(std::uint64_t group) override {
    group_ = group;
    cpu_.WorkFor(group);
  }

  void NotifyBy(std::function<void()> on_finished) override {
    end_.NotifyBy(on_finished);
    cpu_.NotifyBy(std::move(on_finished));
  }

  void Notify() override { is_on_cpu_ ? cpu_.Notify() : end_.Notify(); }

  std::uint64_t Capacity(const ReductionPlan& reduction) const override {
    const std::uint64_t capacity = cpu_.Capacity(reduction);
    return HasKernels(reduction) ? std::min(capacity, reducer_->Capacity(reduction)) : capacity;
  }

  absl::Status Start(const ReductionPlan& reduction, std::uint64_t first_element,
                     std::uint64_t element_count) override {
    is_on_cpu_ = !HasKernels(reduction);
    if (is_on_cpu_) return cpu_.Start(reduction, first_element, element_count);
    Run(reduction, first_element, element_count, cpu_.staging().data());
    return absl::OkStatus();
  }

  std::uint64_t CapacityFrom(const ReductionPlan& reduction, const Memory& memory,
                             std::uint64_t byte_offset) const override {
    return HasKernels(reduction) ? reducer_->Capacity(reduction)
                                 : cpu_.CapacityFrom(reduction, memory, byte_offset);
  }

  absl::Status StartFrom(const ReductionPlan& reduction, std::uint64_t first_element,
                         std::uint64_t element_count, const Memory& memory,
                         std::uint64_t byte_offset) override {
    is_on_cpu_ = !HasKernels(reduction);
    if (is_on_cpu_) return cpu_.StartFrom(reduction, first_element, element_count, memory, byte_offset);
    const std::byte* data = memory.data() + byte_offset;
    if (reinterpret_cast<std::uintptr_t>(data) % kVectorBytes != 0) {
      aligned_.assign(data, data + element_count * reduction.element_bytes());
      data = aligned_.data();
    }
    Run(reduction, first_element, element_count, data);
    return absl::OkStatus();
  }

  absl::Status StartStore(const Memory& memory, std::uint64_t byte_offset,
                          std::uint64_t byte_count) override {
    is_on_cpu_ = true;
    return cpu_.StartStore(memory, byte_offset, byte_count);
  }

  std::uint64_t SegmentCapacity(const ReductionPlan& reduction) const override {
    return cpu_.SegmentCapacity(reduction);
  }
  absl::Status StartSegments(const ReductionPlan& reduction, const SegmentCut& cut) override {
    is_on_cpu_ = true;
    return cpu_.StartSegments(reduction, cut);
  }
  absl::Status StartSegmentsFrom(const ReductionPlan& reduction, const SegmentCut& cut, const Memory& memory,
                                 std::uint64_t byte_offset) override {
    is_on_cpu_ = true;
    return cpu_.StartSegmentsFrom(reduction, cut, memory, byte_offset);
  }
  absl::StatusOr<SegmentsResult> WaitSegments() override { return cpu_.WaitSegments(); }

  bool Finished() override { return is_on_cpu_ ? cpu_.Finished() : end_.Finished(); }

  absl::StatusOr<SlotResult> Wait() override {
    if (is_on_cpu_) return cpu_.Wait();
    end_.Wait();
    if (!status_.ok()) return status_;
    return SlotResult{.state = reducer_->Collect(), .copy = {}, .kernel = took_};
  }

 private:
  void Run(const ReductionPlan& reduction, std::uint64_t first_element, std::uint64_t element_count,
           const std::byte* data) {
    end_.Begin();
    pool_.Run(group_, {.tasks = 1, .run = [=, this](std::size_t) {
                         const auto begin = std::chrono::steady_clock::now();
                         status_ = Launch(reduction, first_element, element_count, data);
                         took_ = absl::FromChrono(std::chrono::steady_clock::now() - begin);
                         end_.End();
                       }});
  }

  absl::Status Launch(const ReductionPlan& reduction, std::uint64_t first_element,
                      std::uint64_t element_count, const std::byte* data) {
    device_->Restart(seed_);
    device_->Scramble();
    absl::Status status;
    {
      const UseDevice use(*device_);
      status = reducer_->Launch(reduction, first_element, data, element_count, device_.get());
    }
    // An abandoned kernel leaves tickets as they were at that time.
    if (!status.ok()) status.Update(Allocate());
    return status;
  }

  Slot& cpu_;
  const std::uint64_t seed_;
  cpu::ThreadPool& pool_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceReducer> reducer_;  // must end before its device
  std::vector<std::byte> aligned_;
  std::uint64_t group_ = 0;

  bool is_on_cpu_ = false;  // what was started last
  absl::Status status_;
  absl::Duration took_;
  cpu::Completion end_;  // of the task that the pool runs
};

class SimtBackend : public Backend {
 public:
  SimtBackend(std::uint64_t seed, std::unique_ptr<Backend> cpu)
      : seed_(seed), cpu_(std::move(cpu)), pool_(static_cast<int>(cpu_->slots().size())) {}

  absl::Status Open() {
    if (pool_.size() < static_cast<int>(cpu_->slots().size())) {
      return absl::ResourceExhaustedError(absl::StrCat("the system allows ", pool_.size(), " of ",
                                                       cpu_->slots().size(),
                                                       " threads to execute kernels on"));
    }
    for (const auto& cpu_slot : cpu_->slots()) {
      auto slot = std::make_unique<SimtSlot>(*cpu_slot, seed_, pool_);
      if (absl::Status status = slot->Allocate(); !status.ok()) return status;
      slots_.push_back(std::move(slot));
    }
    return absl::OkStatus();
  }

  std::string name() const override { return "simt"; }
  std::string device() const override {
    return absl::StrCat("simt:", seed_, " (slow: kernels executed on the CPU)");
  }
  bool Supports(Algorithm) const override { return true; }
  std::span<const std::unique_ptr<Slot>> slots() override { return slots_; }
  absl::Status fault() const override { return absl::OkStatus(); }
  absl::StatusOr<std::unique_ptr<Memory>> BeginRegister(std::span<const std::byte> bytes,
                                                        bool is_written) override {
    return cpu_->BeginRegister(bytes, is_written);
  }
  absl::StatusOr<std::unique_ptr<Memory>> Open(const ProcessMemory& memory) override {
    return cpu_->Open(memory);
  }
  absl::StatusOr<std::unique_ptr<Memory>> Allocate(int device, std::uint64_t bytes) override {
    return cpu_->Allocate(device, bytes);
  }

 private:
  const std::uint64_t seed_;
  const std::unique_ptr<Backend> cpu_;
  std::vector<std::unique_ptr<Slot>> slots_;
  cpu::ThreadPool pool_;  // after the slots: its threads end before they do
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeSimtBackend(std::uint64_t seed, const BackendOptions& options) {
  BackendOptions few = options;
  few.slots = std::min(options.slots, kMaxSlots);
  absl::StatusOr<std::unique_ptr<Backend>> cpu = cpu::MakeCpuBackend(few);
  if (!cpu.ok()) return cpu.status();
  auto backend = std::make_unique<SimtBackend>(seed, *std::move(cpu));
  if (absl::Status status = backend->Open(); !status.ok()) return status;
  return backend;
}

}  // namespace warpfold::kernels::simt
