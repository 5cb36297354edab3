// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cuda_backend.h"

#include <cuda_runtime.h>

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/device_reducer.h"

namespace warpfold::kernels::cuda {
namespace {

// Where the caller does not say. Each piece costs the host a copy command, a launch and a completion: smaller
// ones took more of its time, larger ones only more memory (docs/data-path.md).
constexpr std::size_t kDefaultSlotBytes = 8 << 20;

// Remembers the device's first failure. After it nothing touches CUDA any more.
class Fault {
 public:
  absl::Status Get() const {
    if (!raised_.load(std::memory_order_acquire)) return absl::OkStatus();
    absl::MutexLock lock(&mutex_);
    return status_;
  }
  // Returns `status`, after remembering it if it is a failure of the device.
  absl::Status Check(absl::Status status) {
    if (!IsDeviceError(status)) return status;
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

class CudaSlot : public Slot {
 public:
  CudaSlot(int ordinal, std::size_t bytes, Fault& fault) : ordinal_(ordinal), bytes_(bytes), fault_(fault) {}

  ~CudaSlot() override {
    if (!fault_.Get().ok()) {
      // The context is unusable; freeing would only fail, or hang.
      static_cast<void>(reducer_.release());
      return;
    }
    cudaSetDevice(ordinal_);
    for (cudaEvent_t event : {begun_, copied_, reduced_}) {
      if (event != nullptr) cudaEventDestroy(event);
    }
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
    cudaFreeHost(staging_);
    cudaFree(device_);
  }

  absl::Status Allocate() {
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaEventCreate(&begun_));
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaEventCreate(&copied_));
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaEventCreate(&reduced_));
    WARPFOLD_RETURN_IF_CUDA_ERROR(
        cudaHostAlloc(reinterpret_cast<void**>(&staging_), bytes_, cudaHostAllocDefault));
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaMalloc(reinterpret_cast<void**>(&device_), bytes_));
    absl::StatusOr<std::unique_ptr<DeviceReducer>> reducer = DeviceReducer::Create(bytes_);
    if (!reducer.ok()) return reducer.status();
    reducer_ = *std::move(reducer);
    return absl::OkStatus();
  }

  std::span<std::byte> staging() override { return {staging_, bytes_}; }
  std::uint64_t Capacity(const Reduction& reduction) const override { return reducer_->Capacity(reduction); }

  void NotifyBy(std::function<void()> on_finished) override { on_finished_ = std::move(on_finished); }

  absl::Status Start(const Reduction& reduction, std::uint64_t first_element,
                     std::uint64_t element_count) override {
    if (absl::Status fault = fault_.Get(); !fault.ok()) return fault;
    return fault_.Check(Enqueue(reduction, first_element, element_count));
  }

  // Also where the device failed: Wait then says so.
  bool Finished() override { return !fault_.Get().ok() || cudaEventQuery(reduced_) != cudaErrorNotReady; }

  absl::StatusOr<SlotResult> Wait() override {
    if (absl::Status fault = fault_.Get(); !fault.ok()) return fault;
    SlotResult result{PartialState(*reduction_, 0), absl::ZeroDuration(), absl::ZeroDuration()};
    if (absl::Status status = fault_.Check(Synchronize(result)); !status.ok()) return status;
    result.state = reducer_->Collect();
    return result;
  }

 private:
  absl::Status Enqueue(const Reduction& reduction, std::uint64_t first_element, std::uint64_t element_count) {
    reduction_ = reduction;
    // The current device is a property of the calling thread.
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaSetDevice(ordinal_));
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaEventRecord(begun_, stream_));
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(
        device_, staging_, element_count * reduction.element_bytes(), cudaMemcpyHostToDevice, stream_));
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaEventRecord(copied_, stream_));
    if (absl::Status status = reducer_->Launch(reduction, first_element, device_, element_count, stream_);
        !status.ok()) {
      return status;
    }
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaEventRecord(reduced_, stream_));
    if (!on_finished_) return absl::OkStatus();
    // CUDA runs host functions on a thread of its own, and not at all once the device has failed.
    return StatusOf(cudaLaunchHostFunc(stream_, &CudaSlot::OnFinished, this), "cudaLaunchHostFunc");
  }

  static void CUDART_CB OnFinished(void* slot) { static_cast<CudaSlot*>(slot)->on_finished_(); }

  absl::Status Synchronize(SlotResult& result) {
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaSetDevice(ordinal_));
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaEventSynchronize(reduced_));
    float copy_ms = 0;
    float kernel_ms = 0;
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&copy_ms, begun_, copied_));
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&kernel_ms, copied_, reduced_));
    result.copy = absl::Milliseconds(copy_ms);
    result.kernel = absl::Milliseconds(kernel_ms);
    return absl::OkStatus();
  }

  const int ordinal_;
  const std::size_t bytes_;
  Fault& fault_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begun_ = nullptr;
  cudaEvent_t copied_ = nullptr;
  cudaEvent_t reduced_ = nullptr;
  std::byte* staging_ = nullptr;
  std::byte* device_ = nullptr;
  std::unique_ptr<DeviceReducer> reducer_;
  std::optional<Reduction> reduction_;  // of the current Start
  std::function<void()> on_finished_;
};

class CudaBackend : public Backend {
 public:
  absl::Status Open(int ordinal, const BackendOptions& options) {
    cudaDeviceProp properties;
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaSetDevice(ordinal));
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties, ordinal));
    device_ = absl::StrCat("cuda:", ordinal, " ", properties.name);
    const std::size_t slot_bytes = options.slot_bytes > 0 ? options.slot_bytes : kDefaultSlotBytes;
    for (int i = 0; i < options.slots; ++i) {
      auto slot = std::make_unique<CudaSlot>(ordinal, slot_bytes, fault_);
      if (absl::Status status = slot->Allocate(); !status.ok()) return status;
      slots_.push_back(std::move(slot));
    }
    return absl::OkStatus();
  }

  std::string name() const override { return "cuda"; }
  std::string device() const override { return device_; }
  bool Supports(Algorithm) const override { return true; }
  std::span<const std::unique_ptr<Slot>> slots() override { return slots_; }
  absl::Status fault() const override { return fault_.Get(); }

 private:
  Fault fault_;
  std::string device_;
  std::vector<std::unique_ptr<Slot>> slots_;
};

// 0 where there is no driver, or no GPU. A driver that is too old or broken is an error: the GPU that it
// should drive is missed.
absl::StatusOr<int> CountDevices() {
  int driver = 0;
  WARPFOLD_RETURN_IF_CUDA_ERROR(cudaDriverGetVersion(&driver));
  if (driver == 0) return 0;
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaErrorNoDevice) return 0;
  if (error != cudaSuccess) return StatusOf(error, "cudaGetDeviceCount");
  return devices;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(int ordinal, const BackendOptions& options) {
  const absl::StatusOr<int> devices = CountDevices();
  if (!devices.ok()) return devices.status();
  if (ordinal >= *devices) {
    return absl::NotFoundError(absl::StrCat("no GPU cuda:", ordinal, "; there are ", *devices));
  }
  auto backend = std::make_unique<CudaBackend>();
  if (absl::Status status = backend->Open(ordinal, options); !status.ok()) return status;
  return backend;
}

}  // namespace warpfold::kernels::cuda
