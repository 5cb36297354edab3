// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether the device still works, and what becomes of objects that use it if it does not.
//
// Threads: any.
#pragma once

#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "kernels/cuda/cuda_status.h"

namespace warpfold::kernels::cuda {

// Remembers the device's first failure. After it nothing touches CUDA anymore.
class Fault {
 public:
  absl::Status Get() const {
    if (!raised_.load(std::memory_order_acquire)) return absl::OkStatus();
    absl::MutexLock lock(&mutex_);
    return status_;
  }
  // Returns `status`, after remembering it if it is a failure of the device.
  absl::Status Check(absl::Status status) {
    if (!IsDeviceLost(status)) return status;
    absl::MutexLock lock(&mutex_);
    if (status_.ok()) status_ = status;
    raised_.store(true, std::memory_order_release);
    return status;
  }

 private:
  std::atomic<bool> raised_ = false;
  mutable absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// The object, if all that it needs was `allocated`. If the device was lost meanwhile, it is never destroyed:
// to free what it has would only fail, or hang.
template <typename T>
absl::StatusOr<std::unique_ptr<T>> CompleteOrAbandon(std::unique_ptr<T> object,
                                                     const absl::Status& allocated) {
  if (allocated.ok()) return object;
  if (IsDeviceLost(allocated)) static_cast<void>(object.release());
  return allocated;
}

}  // namespace warpfold::kernels::cuda
