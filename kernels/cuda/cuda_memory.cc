// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cuda_memory.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/registration.h"
#include "kernels/error.h"
#include "kernels/geometry.h"
#include "proto/error_reasons.h"

namespace warpfold::kernels::cuda {
namespace {

static_assert(ProcessMemory::kHandleBytes == sizeof(cudaIpcMemHandle_t));

// Makes this thread's next calls go to the GPU, unless the device is lost.
absl::Status Use(Gpu gpu, Fault& fault) {
  if (absl::Status lost = fault.Get(); !lost.ok()) return lost;
  return fault.Check(StatusOf(cudaSetDevice(gpu.ordinal), "cudaSetDevice"));
}

// CUDA has refused what a client asked for. That says nothing about the device, unless it is lost: then CUDA
// also refuses to wait for a stream without work. Asking it for its last error is not enough.
absl::Status LostAfterRefusal(const char* what, Fault& fault) {
  static_cast<void>(cudaGetLastError());
  return fault.Check(LossOf(cudaStreamSynchronize(cudaStreamPerThread), what));
}

// Memory of a GPU. Frees the whole allocation with `Release`.
template <auto Release>
class CudaMemory : public Memory {
 public:
  // `base` is what Release takes: the start of the allocation of which `bytes` are a part.
  CudaMemory(Gpu gpu, void* base, std::span<const std::byte> bytes, Fault& fault)
      : Memory(bytes, false, gpu.device), gpu_(gpu), base_(base), fault_(fault) {}

  ~CudaMemory() override {
    if (!fault_.Get().ok()) return;
    cudaSetDevice(gpu_.ordinal);
    // An error cannot be reported here; one that means that the device is lost will recur.
    static_cast<void>(Release(base_));
    static_cast<void>(cudaGetLastError());
  }

  absl::Status Write(std::uint64_t byte_offset, std::span<const std::byte> bytes) const override {
    if (absl::Status status = Use(gpu_, fault_); !status.ok()) return status;
    const auto copy = [&]() -> absl::Status {
      WARPFOLD_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(const_cast<std::byte*>(data()) + byte_offset,
                                                    bytes.data(), bytes.size(), cudaMemcpyHostToDevice,
                                                    cudaStreamPerThread));
      return StatusOf(cudaStreamSynchronize(cudaStreamPerThread), "cudaStreamSynchronize");
    };
    absl::Status status = fault_.Check(copy());
    if (status.ok() || !fault_.Get().ok()) return status;
    // What was enqueued must have read the bytes.
    absl::Status lost = LostAfterRefusal("cudaMemcpyAsync", fault_);
    return lost.ok() ? status : lost;
  }

 private:
  const Gpu gpu_;
  void* const base_;
  Fault& fault_;
};

// Makes the system map all pages. If it has them in memory, it also maps some around the one that is read,
// which MADV_POPULATE_READ does not do.
void ReadPages(std::span<const std::byte> bytes) {
  constexpr std::size_t kPageBytes = 4096;
  for (std::size_t at = 0; at < bytes.size(); at += kPageBytes) {
    static_cast<void>(*const_cast<const volatile std::byte*>(bytes.data() + at));
  }
}

// Memory of the host that the GPUs read. It is registered part by part.
class RegisteredMemory : public Memory {
 public:
  RegisteredMemory(Gpu gpu, std::span<const std::byte> bytes, unsigned flags, Fault& fault)
      : Memory(bytes, true), gpu_(gpu), flags_(flags), left_(bytes), fault_(fault) {}

  ~RegisteredMemory() override {
    while (UnregisterPart()) continue;
  }

  // Ends at the first part that is refused. Those before it stay registered.
  absl::StatusOr<bool> RegisterNext() override {
    if (left_.empty()) return false;
    if (absl::Status status = Use(gpu_, fault_); !status.ok()) return status;
    ReadPages(NextPart());
    if (RegisterPart() == cudaSuccess) return !left_.empty();
    left_ = {};
    is_refused_ = true;
    if (absl::Status lost = LostAfterRefusal("cudaHostRegister", fault_); !lost.ok()) return lost;
    return false;
  }

  // Launches of other threads wait while the driver registers a part, which takes little time if its pages
  // are there (docs/adr/0131). The GPU is current.
  cudaError_t RegisterPart() {
    const std::span<const std::byte> part = NextPart();
    auto* const base = const_cast<std::byte*>(part.data());
    const cudaError_t error = cudaHostRegister(base, part.size(), flags_);
    if (error != cudaSuccess) return error;
    parts_.push_back(base);
    left_ = left_.subspan(part.size());
    return cudaSuccess;
  }
  bool is_registered() const override { return left_.empty() && !is_refused_; }

  bool UnregisterNext() override { return UnregisterPart(); }

 private:
  std::span<const std::byte> NextPart() const {
    return left_.first(std::min(left_.size(), BytesOfRegistration(left_.data())));
  }
  // Unregisters the latest part. Returns whether another one is left.
  bool UnregisterPart() {
    if (parts_.empty() || !fault_.Get().ok()) return false;
    cudaSetDevice(gpu_.ordinal);
    // An error cannot be reported here, as above.
    static_cast<void>(cudaHostUnregister(parts_.back()));
    static_cast<void>(cudaGetLastError());
    parts_.pop_back();
    return !parts_.empty();
  }

  const Gpu gpu_;
  const unsigned flags_;
  std::span<const std::byte> left_;  // what has yet to be registered
  bool is_refused_ = false;
  Fault& fault_;
  std::vector<std::byte*> parts_;
};

absl::Status BadMemory(absl::string_view what, const char* field) {
  return Error(absl::StatusCode::kInvalidArgument, reason::kBadMemory, what, {{"field", field}});
}

// The bytes of the allocation that starts at `base`, as the driver knows them.
absl::StatusOr<std::uint64_t> AllocationBytes(void* base, Fault& fault) {
  // The driver's own function, for which the runtime has no equivalent.
  using GetAddressRange = CUresult (*)(CUdeviceptr*, std::size_t*, CUdeviceptr);
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  WARPFOLD_RETURN_IF_CUDA_ERROR(
      cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &entry, 3020, cudaEnableDefault, &found));
  CUdeviceptr start = 0;
  std::size_t bytes = 0;
  if (found != cudaDriverEntryPointSuccess ||
      reinterpret_cast<GetAddressRange>(entry)(&start, &bytes, reinterpret_cast<CUdeviceptr>(base)) !=
          CUDA_SUCCESS) {
    if (absl::Status lost = LostAfterRefusal("cuMemGetAddressRange", fault); !lost.ok()) return lost;
    return BadMemory("the driver does not know the memory of the handle", "handle");
  }
  return bytes - (reinterpret_cast<CUdeviceptr>(base) - start);
}

// Whether [offset, offset + count) is within `bytes`.
bool IsWithin(std::uint64_t offset, std::uint64_t count, std::uint64_t bytes) {
  return offset <= bytes && count <= bytes - offset;
}

absl::Status CheckAllocation(int ordinal, void* base, const ProcessMemory& memory, Fault& fault) {
  cudaPointerAttributes attributes = {};
  WARPFOLD_RETURN_IF_CUDA_ERROR(cudaPointerGetAttributes(&attributes, base));
  if (attributes.type != cudaMemoryTypeDevice || attributes.device != ordinal) {
    return BadMemory("the handle is not of memory of this server's GPU", "handle");
  }
  const absl::StatusOr<std::uint64_t> bytes = AllocationBytes(base, fault);
  if (!bytes.ok()) return bytes.status();
  if (IsWithin(memory.byte_offset, memory.byte_count, *bytes)) return absl::OkStatus();
  return BadMemory(absl::StrCat("the range exceeds the allocation of ", *bytes, " bytes"), "byte_count");
}

absl::StatusOr<std::unique_ptr<Memory>> OpenOn(Gpu gpu, const ProcessMemory& memory, Fault& fault) {
  if (absl::Status status = Use(gpu, fault); !status.ok()) return status;
  cudaIpcMemHandle_t handle;
  std::memcpy(&handle, memory.handle.data(), sizeof(handle));
  void* base = nullptr;
  const cudaError_t error = cudaIpcOpenMemHandle(&base, handle, cudaIpcMemLazyEnablePeerAccess);
  if (error != cudaSuccess) {
    if (absl::Status lost = LostAfterRefusal("cudaIpcOpenMemHandle", fault); !lost.ok()) return lost;
    return BadMemory(absl::StrCat("the GPU knows no memory of this handle (CUDA error ",
                                  static_cast<int>(error), ", ", cudaGetErrorName(error), ")"),
                     "handle");
  }
  using Opened = CudaMemory<cudaIpcCloseMemHandle>;
  if (absl::Status status = fault.Check(CheckAllocation(gpu.ordinal, base, memory, fault)); !status.ok()) {
    const Opened closes(gpu, base, {}, fault);
    return status;
  }
  const auto* const bytes = static_cast<const std::byte*>(base) + memory.byte_offset;
  return std::make_unique<Opened>(gpu, base, std::span(bytes, memory.byte_count), fault);
}

// The GPU that has the memory, if its name is known.
absl::StatusOr<Gpu> GpuOf(std::span<const Gpu> gpus, const ProcessMemory& memory, Fault& fault) {
  if (absl::Status lost = fault.Get(); !lost.ok()) return lost;
  for (const Gpu gpu : gpus) {
    std::array<char, ProcessMemory::kBusIdBytes> bus_id = {};
    const cudaError_t error =
        cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), gpu.ordinal);
    absl::Status status = fault.Check(StatusOf(error, "cudaDeviceGetPCIBusId"));
    if (!status.ok()) return status;
    if (absl::EqualsIgnoreCase(bus_id.data(), memory.pci_bus_id.data())) return gpu;
  }
  return BadMemory("the memory is of a GPU that is not this server's", "pci_bus_id");
}

// Whether another GPU may know the handle that this one refused.
bool IsOfAnother(const absl::Status& status) {
  return absl::IsInvalidArgument(status) && ErrorDetails(status) == ErrorMetadata{{"field", "handle"}};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Memory>> BeginRegisterHost(Gpu gpu, std::span<const std::byte> bytes,
                                                          bool is_written, Fault& fault) {
  if (absl::Status lost = fault.Get(); !lost.ok()) return lost;
  const unsigned access = is_written ? 0 : cudaHostRegisterReadOnly;
  return std::make_unique<RegisteredMemory>(gpu, bytes, access | cudaHostRegisterPortable, fault);
}

absl::StatusOr<std::unique_ptr<Memory>> RegisterPieces(std::span<const Gpu> gpus,
                                                       std::span<const std::byte> bytes, Fault& fault) {
  for (const Gpu gpu : gpus) {
    int same_addresses = 0;
    const cudaError_t error =
        cudaDeviceGetAttribute(&same_addresses, cudaDevAttrCanUseHostPointerForRegisteredMem, gpu.ordinal);
    absl::Status status = fault.Check(StatusOf(error, "cudaDeviceGetAttribute"));
    if (!status.ok()) return status;
    if (same_addresses == 0) {
      return absl::ResourceExhaustedError("the GPU does not read the host's memory by the host's addresses");
    }
  }
  if (absl::Status status = Use(gpus.front(), fault); !status.ok()) return status;
  auto memory = std::make_unique<RegisteredMemory>(gpus.front(), bytes,
                                                   cudaHostRegisterMapped | cudaHostRegisterPortable, fault);
  while (!memory->is_registered()) {
    if (memory->RegisterPart() == cudaSuccess) continue;
    if (absl::Status lost = LostAfterRefusal("cudaHostRegister", fault); !lost.ok()) return lost;
    return absl::ResourceExhaustedError(
        absl::StrCat("the system does not let the GPU read ", bytes.size(), " bytes of the host"));
  }
  return memory;
}

absl::Status CheckProcessMemoryOwner(std::span<const Gpu> gpus, const ProcessMemory& memory, Fault& fault) {
  return memory.pci_bus_id.front() == '\0' ? absl::OkStatus() : GpuOf(gpus, memory, fault).status();
}

absl::StatusOr<std::unique_ptr<Memory>> OpenProcessMemory(std::span<const Gpu> gpus,
                                                          const ProcessMemory& memory, Fault& fault) {
  if (memory.pci_bus_id.front() != '\0') {
    const absl::StatusOr<Gpu> owner = GpuOf(gpus, memory, fault);
    return owner.ok() ? OpenOn(*owner, memory, fault) : owner.status();
  }
  absl::StatusOr<std::unique_ptr<Memory>> opened = OpenOn(gpus.front(), memory, fault);
  for (const Gpu gpu : gpus.subspan(1)) {
    if (!IsOfAnother(opened.status())) break;
    opened = OpenOn(gpu, memory, fault);
  }
  return opened;
}

absl::StatusOr<std::unique_ptr<Memory>> AllocateDeviceMemory(Gpu gpu, std::uint64_t bytes, Fault& fault) {
  if (absl::Status status = Use(gpu, fault); !status.ok()) return status;
  void* base = nullptr;
  // Kernels over segments read whole vectors, the last of which may end after the bytes.
  const std::uint64_t padding = (kVectorBytes - bytes % kVectorBytes) % kVectorBytes;
  const cudaError_t error = cudaMalloc(&base, std::max(bytes, bytes + padding));
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    return absl::ResourceExhaustedError(absl::StrCat("the GPU has no room for ", bytes, " bytes"));
  }
  if (absl::Status status = fault.Check(StatusOf(error, "cudaMalloc")); !status.ok()) return status;
  const std::span<const std::byte> span(static_cast<const std::byte*>(base), bytes);
  return std::make_unique<CudaMemory<cudaFree>>(gpu, base, span, fault);
}

absl::Status ProbeProcessMemory(std::span<const Gpu> gpus, const ProcessMemory& memory) {
  // This is little, since the GPU may have little room left.
  constexpr std::uint64_t kCopyBytes = std::uint64_t{1} << 20;
  Fault fault;
  const absl::StatusOr<std::unique_ptr<Memory>> opened = OpenProcessMemory(gpus, memory, fault);
  if (!opened.ok()) return opened.status();
  const Gpu owner = gpus[static_cast<std::size_t>(*(*opened)->device())];
  const auto copy = AllocateDeviceMemory(owner, std::min(memory.byte_count, kCopyBytes), fault);
  if (!copy.ok()) return copy.status();
  const auto read_all = [&]() -> absl::Status {
    for (std::uint64_t begin = 0; begin < memory.byte_count; begin += kCopyBytes) {
      WARPFOLD_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(
          const_cast<std::byte*>((*copy)->data()), (*opened)->data() + begin,
          std::min(memory.byte_count - begin, kCopyBytes), cudaMemcpyDeviceToDevice, cudaStreamPerThread));
    }
    return StatusOf(cudaStreamSynchronize(cudaStreamPerThread), "reading the memory of the handle");
  };
  return fault.Check(read_all());
}

}  // namespace warpfold::kernels::cuda
