// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cuda_backend.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/cuda/cuda_memory.h"
#include "kernels/cuda/cuda_slot.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/fault.h"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/nvml.h"
#include "kernels/cuda/slot_memory.h"
#include "kernels/cuda/tuning.h"
#include "kernels/error.h"

namespace warpfold::kernels::cuda {
namespace {

// "cuda:0 NVIDIA H200", "cuda:0,cuda:1 NVIDIA H200"; if the GPUs differ, their names one after the other.
std::string NameOf(std::span<const Gpu> gpus, std::span<const std::string> models) {
  const bool are_alike = std::count(models.begin(), models.end(), models.front()) == std::ssize(models);
  const auto write = [](std::string* out, Gpu gpu) { absl::StrAppend(out, "cuda:", gpu.ordinal); };
  return absl::StrCat(absl::StrJoin(gpus, ",", write), " ",
                      are_alike ? models.front() : absl::StrJoin(models, ", "));
}

class CudaBackend : public Backend {
 public:
  absl::Status Open(std::span<const int> ordinals, const BackendOptions& options) {
    const std::size_t slot_bytes = options.slot_bytes > 0 ? options.slot_bytes : kDefaultSlotBytes;
    std::vector<std::string> models;
    for (const int ordinal : ordinals) {
      const Gpu gpu = {.ordinal = ordinal, .device = static_cast<int>(gpus_.size())};
      if (absl::Status status = Add(gpu, options.slots * MemoryOfSlot(slot_bytes).device_bytes, &models);
          !status.ok())
        return status;
    }
    // One slot of each GPU in turn: a caller that takes the first slots has all GPUs.
    for (int i = 0; i < options.slots; ++i) {
      for (const Gpu gpu : gpus_) {
        absl::StatusOr<std::unique_ptr<Slot>> slot = MakeCudaSlot(gpu, slot_bytes, piece_memory_, fault_);
        if (!slot.ok()) return slot.status();
        slots_.push_back(*std::move(slot));
      }
    }
    device_ = NameOf(gpus_, models);
    return absl::OkStatus();
  }

  std::string name() const override { return "cuda"; }
  std::string device() const override { return device_; }
  int devices() const override { return static_cast<int>(gpus_.size()); }
  bool Supports(Algorithm) const override { return true; }
  std::span<const std::unique_ptr<Slot>> slots() override { return slots_; }
  absl::Status fault() const override { return fault_.Get(); }
  std::vector<DeviceTelemetry> Telemetry() override {
    std::vector<DeviceTelemetry> all;
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      if (nvml_[i] == nullptr) continue;
      all.push_back(nvml_[i]->Read());
      all.back().device = absl::StrCat("cuda:", gpus_[i].ordinal);
    }
    return all;
  }

  absl::StatusOr<std::unique_ptr<Memory>> BeginRegister(std::span<const std::byte> bytes,
                                                        bool is_written) override {
    return BeginRegisterHost(gpus_.front(), bytes, is_written, fault_);
  }
  bool opens_pieces() const override { return true; }
  absl::Status OpenPieces(std::span<const std::byte> bytes) override {
    absl::StatusOr<std::unique_ptr<Memory>> memory = RegisterPieces(gpus_, bytes, fault_);
    if (!memory.ok()) return memory.status();
    pieces_ = *std::move(memory);
    piece_memory_ = {pieces_->data(), pieces_->size()};
    return absl::OkStatus();
  }
  absl::Status CheckOwner(const ProcessMemory& memory) override {
    return CheckProcessMemoryOwner(gpus_, memory, fault_);
  }
  absl::StatusOr<std::unique_ptr<Memory>> Open(const ProcessMemory& memory) override {
    return OpenProcessMemory(gpus_, memory, fault_);
  }
  absl::StatusOr<std::unique_ptr<Memory>> Allocate(int device, std::uint64_t bytes) override {
    return AllocateDeviceMemory(gpus_[static_cast<std::size_t>(device)], bytes, fault_);
  }

 private:
  absl::Status Add(Gpu gpu, std::size_t bytes, std::vector<std::string>* models) {
    cudaDeviceProp properties;
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaSetDevice(gpu.ordinal));
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties, gpu.ordinal));
    models->push_back(properties.name);
    // This is checked before slots take the same amount of the host's memory in vain.
    std::size_t free_bytes = 0;
    std::size_t all_bytes = 0;
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaMemGetInfo(&free_bytes, &all_bytes));
    if (bytes > free_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat("slots take ", bytes,
                                                       " bytes of the GPU, more than the ", free_bytes,
                                                       " that cuda:", gpu.ordinal, " has free"));
    }
    char bus_id[32] = {};
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaDeviceGetPCIBusId(bus_id, sizeof(bus_id), gpu.ordinal));
    nvml_.push_back(Nvml::Open(bus_id));
    gpus_.push_back(gpu);
    return absl::OkStatus();
  }

  Fault fault_;
  std::vector<Gpu> gpus_;
  std::string device_;
  std::vector<std::unique_ptr<Nvml>> nvml_;  // of each GPU; null if the driver's library is not there
  std::unique_ptr<Memory> pieces_;           // where pieces may lie, if anywhere
  std::span<const std::byte> piece_memory_;  // its bytes
  std::vector<std::unique_ptr<Slot>> slots_;
};

// As CUDA counts versions: 13020 is 13.2.
std::string VersionName(int version) { return absl::StrCat(version / 1000, ".", version % 1000 / 10); }

// 0 if there is no driver, or no GPU. A driver that is too old or broken is an error: otherwise the GPU that
// it should drive would be missing.
absl::StatusOr<int> CountDevices() {
  int driver = 0;
  WARPFOLD_RETURN_IF_CUDA_ERROR(cudaDriverGetVersion(&driver));
  if (driver == 0) return 0;
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaErrorNoDevice) {
    static_cast<void>(cudaGetLastError());  // or the next launch on this thread would return it
    return 0;
  }
  if (error == cudaErrorInsufficientDriver) {
    return absl::FailedPreconditionError(absl::StrCat("the NVIDIA driver is too old: it is of CUDA ",
                                                      VersionName(driver), ", and this build needs ",
                                                      VersionName(CUDART_VERSION)));
  }
  if (error != cudaSuccess) return StatusOf(error, "cudaGetDeviceCount");
  return devices;
}

// If there is no memory to open a GPU with, there may be some later. All other errors are reported as they
// are.
absl::Status WhyNotOpened(const absl::Status& status) {
  const ErrorMetadata no_memory = {{"cuda_error", absl::StrCat(static_cast<int>(cudaErrorMemoryAllocation))}};
  return ErrorDetails(status) == no_memory ? absl::ResourceExhaustedError(status.message()) : status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(std::span<const int> ordinals,
                                                         const BackendOptions& options) {
  const absl::StatusOr<int> devices = CountDevices();
  if (!devices.ok()) return WhyNotOpened(devices.status());
  if (*devices == 0) return absl::NotFoundError("there is no GPU");
  std::vector<int> gpus(ordinals.begin(), ordinals.end());
  if (gpus.empty()) {
    gpus.resize(static_cast<std::size_t>(*devices));
    std::iota(gpus.begin(), gpus.end(), 0);
  }
  for (const int ordinal : gpus) {
    if (ordinal < *devices) continue;
    return absl::NotFoundError(absl::StrCat("no GPU cuda:", ordinal, "; there are ", *devices));
  }
  auto backend = std::make_unique<CudaBackend>();
  if (absl::Status status = backend->Open(gpus, options); !status.ok()) return WhyNotOpened(status);
  return backend;
}

}  // namespace warpfold::kernels::cuda
