// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether the device still works.
//
// Threads: any.
#pragma once

#include <atomic>

#include "absl/status/status.h"
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

}  // namespace warpfold::kernels::cuda
