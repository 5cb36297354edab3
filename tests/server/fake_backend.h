// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A backend without a device: its slots finish within Start, or when a test says so, and fail where it says
// so.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/error.h"

namespace warpfold::server {

inline absl::Status DeviceLost() {
  return kernels::Error(absl::StatusCode::kUnavailable, "DEVICE_LOST", "the device failed");
}

class FakeSlot;

// What the slots of a FakeBackend do, and did. Threads: any, at any time.
class FakeBehaviour {
 public:
  std::atomic<bool> fail_start = false;
  std::atomic<bool> fail_wait = false;
  std::atomic<int> starts = 0;
  std::atomic<int> waits = 0;
  std::atomic<std::uint64_t> elements = 0;  // of all starts
  std::atomic<int> misuses = 0;             // calls that the contract of kernels::Slot forbids

  // Slots that are started while blocked work until they are unblocked or finished one by one.
  void SetBlocked(bool blocked) {
    {
      const std::lock_guard lock(mutex_);
      blocked_ = blocked;
    }
    if (!blocked) FinishAll();
  }

  // Ends the work of the slot that was started `n`-th among those that work, from this thread; Wait then
  // returns `status` where it is an error.
  inline void Finish(std::size_t n, absl::Status status = absl::OkStatus());
  void FinishAll() {
    while (working() > 0) Finish(0);
  }

  // How many slots have been started and not finished.
  std::size_t working() const {
    const std::lock_guard lock(mutex_);
    return working_.size();
  }

 private:
  friend class FakeSlot;

  mutable std::mutex mutex_;
  std::condition_variable finished_;
  bool blocked_ = false;            // guarded by mutex_
  std::vector<FakeSlot*> working_;  // guarded by mutex_; oldest first
};

class FakeSlot : public kernels::Slot {
 public:
  FakeSlot(FakeBehaviour& behaviour, std::size_t bytes) : behaviour_(behaviour), staging_(bytes) {}

  std::span<std::byte> staging() override { return staging_; }

  void NotifyBy(std::function<void()> on_finished) override { on_finished_ = std::move(on_finished); }

  std::uint64_t Capacity(const kernels::Reduction& reduction) const override {
    return staging_.size() / reduction.leaf_bytes() * reduction.leaf_elements();
  }

  absl::Status Start(const kernels::Reduction& reduction, std::uint64_t first_element,
                     std::uint64_t element_count) override {
    if (range_.has_value() || element_count == 0 || element_count > Capacity(reduction)) ++behaviour_.misuses;
    if (behaviour_.fail_start) return DeviceLost();
    ++behaviour_.starts;
    behaviour_.elements += element_count;
    range_.emplace(Range{reduction, first_element, element_count});
    status_ = absl::OkStatus();
    const std::lock_guard lock(behaviour_.mutex_);
    works_ = behaviour_.blocked_;
    if (works_) behaviour_.working_.push_back(this);
    return absl::OkStatus();
  }

  bool Finished() override {
    if (!range_.has_value()) ++behaviour_.misuses;
    const std::lock_guard lock(behaviour_.mutex_);
    return !works_;
  }

  // The elements are looked at only now: whoever has touched them since Start gets a wrong result.
  absl::StatusOr<kernels::SlotResult> Wait() override {
    if (!range_.has_value()) ++behaviour_.misuses;
    ++behaviour_.waits;
    {
      std::unique_lock lock(behaviour_.mutex_);
      behaviour_.finished_.wait(lock, [this] { return !works_; });
    }
    const Range range = *std::exchange(range_, std::nullopt);
    if (behaviour_.fail_wait) return DeviceLost();
    if (!status_.ok()) return status_;
    const auto data = std::span(staging_).first(range.element_count * range.reduction.element_bytes());
    return kernels::SlotResult{.state = kernels::ReduceOnHost(range.reduction, range.first_element, data),
                               .copy = absl::Nanoseconds(1),
                               .kernel = absl::Nanoseconds(2)};
  }

 private:
  friend class FakeBehaviour;
  struct Range {
    kernels::Reduction reduction;
    std::uint64_t first_element;
    std::uint64_t element_count;
  };

  FakeBehaviour& behaviour_;
  std::vector<std::byte> staging_;
  std::function<void()> on_finished_;
  std::optional<Range> range_;  // of the current Start
  bool works_ = false;          // guarded by the behaviour's mutex
  absl::Status status_;         // likewise, while it works
};

void FakeBehaviour::Finish(std::size_t n, absl::Status status) {
  std::function<void()> on_finished;
  {
    const std::lock_guard lock(mutex_);
    if (n >= working_.size()) return;
    FakeSlot* const slot = working_[n];
    working_.erase(working_.begin() + static_cast<std::ptrdiff_t>(n));
    slot->works_ = false;
    slot->status_ = std::move(status);
    on_finished = slot->on_finished_;
  }
  finished_.notify_all();
  if (on_finished) on_finished();
}

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
