// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cuda_backend.h"

#include <cuda_runtime.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_memory.h"
#include "kernels/cuda/cuda_slot.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/fault.h"
#include "kernels/cuda/nvml.h"

namespace warpfold::kernels::cuda {
namespace {

// Where the caller does not say. Each piece costs the host a copy command, a launch and a completion: smaller
// ones took more of its time, larger ones only more memory (docs/data-path.md).
constexpr std::size_t kDefaultSlotBytes = 8 << 20;

class CudaBackend : public Backend {
 public:
  absl::Status Open(int ordinal, const BackendOptions& options) {
    cudaDeviceProp properties;
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaSetDevice(ordinal));
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties, ordinal));
    device_ = absl::StrCat("cuda:", ordinal, " ", properties.name);
    const std::size_t slot_bytes = options.slot_bytes > 0 ? options.slot_bytes : kDefaultSlotBytes;
    // Said before the host's memory, of which each slot takes as much, is taken for nothing.
    std::size_t free_bytes = 0;
    std::size_t all_bytes = 0;
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaMemGetInfo(&free_bytes, &all_bytes));
    if (slot_bytes > free_bytes / static_cast<std::size_t>(options.slots)) {
      return absl::ResourceExhaustedError(absl::StrCat(options.slots, " slots of ", slot_bytes,
                                                       " bytes are more than the ", free_bytes,
                                                       " bytes that the device has free"));
    }
    for (int i = 0; i < options.slots; ++i) {
      absl::StatusOr<std::unique_ptr<Slot>> slot = MakeCudaSlot(ordinal, slot_bytes, fault_);
      if (!slot.ok()) return slot.status();
      slots_.push_back(*std::move(slot));
    }
    ordinal_ = ordinal;
    char bus_id[32] = {};
    WARPFOLD_RETURN_IF_CUDA_ERROR(cudaDeviceGetPCIBusId(bus_id, sizeof(bus_id), ordinal));
    nvml_ = Nvml::Open(bus_id);
    return absl::OkStatus();
  }

  std::string name() const override { return "cuda"; }
  std::string device() const override { return device_; }
  bool Supports(Algorithm) const override { return true; }
  std::span<const std::unique_ptr<Slot>> slots() override { return slots_; }
  absl::Status fault() const override { return fault_.Get(); }
  std::optional<DeviceTelemetry> Telemetry() override {
    return nvml_ == nullptr ? std::nullopt : std::optional(nvml_->Read());
  }

  absl::StatusOr<std::unique_ptr<Memory>> Register(std::span<const std::byte> bytes) override {
    return RegisterHostMemory(ordinal_, bytes, fault_);
  }
  bool takes_pieces() const override { return true; }
  absl::Status OpenPieces(std::span<const std::byte> bytes) override {
    absl::StatusOr<std::unique_ptr<Memory>> memory = RegisterPieces(ordinal_, bytes, fault_);
    if (!memory.ok()) return memory.status();
    pieces_ = *std::move(memory);
    return absl::OkStatus();
  }
  std::span<const std::byte> piece_memory() const override {
    if (pieces_ == nullptr) return {};
    return {pieces_->data(), pieces_->size()};
  }
  absl::StatusOr<std::unique_ptr<Memory>> Open(const ProcessMemory& memory) override {
    return OpenProcessMemory(ordinal_, memory, fault_);
  }
  absl::StatusOr<std::unique_ptr<Memory>> Allocate(int device, std::uint64_t bytes) override {
    return AllocateDeviceMemory(ordinal_, bytes, fault_);
  }

 private:
  Fault fault_;
  int ordinal_ = 0;
  std::string device_;
  std::unique_ptr<Nvml> nvml_;      // null where the driver's library is not there
  std::unique_ptr<Memory> pieces_;  // where pieces may lie, if anywhere
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
