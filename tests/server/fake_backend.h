// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A backend whose slots reduce on the waiting thread, and fail or hang where a test says so.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/backend.h"
#include "kernels/error.h"

namespace warpfold::server {

// What the slots of a FakeBackend do. Threads: set from any thread, at any time.
struct FakeBehaviour {
  std::atomic<bool> fail_start = false;
  std::atomic<bool> fail_wait = false;
  std::atomic<int> starts = 0;
  std::atomic<int> waits = 0;
  std::atomic<std::uint64_t> elements = 0;  // of all starts

  // While blocked, Wait does not return.
  void SetBlocked(bool blocked) {
    const std::lock_guard lock(mutex);
    blocked_now = blocked;
    changed.notify_all();
  }
  void AwaitUnblocked() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return !blocked_now; });
  }

 private:
  std::mutex mutex;
  std::condition_variable changed;
  bool blocked_now = false;
};

inline absl::Status DeviceLost() {
  return kernels::Error(absl::StatusCode::kUnavailable, "DEVICE_LOST", "the device failed");
}

class FakeSlot : public kernels::Slot {
 public:
  FakeSlot(FakeBehaviour& behaviour, std::size_t bytes) : behaviour_(behaviour), staging_(bytes) {}

  std::span<std::byte> staging() override { return staging_; }

  std::uint64_t Capacity(const kernels::Reduction& reduction) const override {
    return staging_.size() / reduction.leaf_bytes() * reduction.leaf_elements();
  }

  absl::Status Start(const kernels::Reduction& reduction, std::uint64_t first_element,
                     std::uint64_t element_count) override {
    if (behaviour_.fail_start) return DeviceLost();
    ++behaviour_.starts;
    behaviour_.elements += element_count;
    started_ = std::make_unique<Range>(Range{reduction, first_element, element_count});
    return absl::OkStatus();
  }

  absl::StatusOr<kernels::SlotResult> Wait() override {
    ++behaviour_.waits;
    behaviour_.AwaitUnblocked();
    const std::unique_ptr<Range> range = std::move(started_);
    if (behaviour_.fail_wait) return DeviceLost();
    const auto data = std::span(staging_).first(range->element_count * range->reduction.element_bytes());
    return kernels::SlotResult{.state = kernels::ReduceOnHost(range->reduction, range->first_element, data),
                               .copy = absl::Nanoseconds(1),
                               .kernel = absl::Nanoseconds(2)};
  }

 private:
  struct Range {
    kernels::Reduction reduction;
    std::uint64_t first_element;
    std::uint64_t element_count;
  };

  FakeBehaviour& behaviour_;
  std::vector<std::byte> staging_;
  std::unique_ptr<Range> started_;
};

class FakeBackend : public kernels::Backend {
 public:
  explicit FakeBackend(int slots = 2, std::size_t slot_bytes = std::size_t{64} << 10) {
    for (int i = 0; i < slots; ++i) slots_.push_back(std::make_unique<FakeSlot>(behaviour, slot_bytes));
  }

  std::string name() const override { return "fake"; }
  std::string device() const override { return "fake:0"; }
  bool Supports(kernels::Algorithm algorithm) const override {
    return has_algorithms || algorithm == kernels::Algorithm::kAuto;
  }
  std::span<const std::unique_ptr<kernels::Slot>> slots() override { return slots_; }
  absl::Status fault() const override { return faulty ? DeviceLost() : absl::OkStatus(); }

  FakeBehaviour behaviour;
  std::atomic<bool> faulty = false;
  std::atomic<bool> has_algorithms = true;

 private:
  std::vector<std::unique_ptr<kernels::Slot>> slots_;
};

}  // namespace warpfold::server
