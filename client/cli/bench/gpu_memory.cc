// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/bench/gpu_memory.h"

#include <dlfcn.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace warpfold::cli {
namespace {

// A CUipcMemHandle.
struct Handle {
  char bytes[64];
};

// The functions of the driver that are used (CUDA Driver API 13.0); all return 0 for success.
struct Driver {
  int (*init)(unsigned flags) = nullptr;
  int (*device_get)(int* device, int ordinal) = nullptr;
  int (*retain)(void** context, int device) = nullptr;
  int (*set_current)(void* context) = nullptr;
  int (*allocate)(std::uint64_t* address, std::size_t bytes) = nullptr;
  int (*free)(std::uint64_t address) = nullptr;
  int (*copy)(std::uint64_t to, const void* from, std::size_t bytes) = nullptr;
  int (*get_handle)(Handle* handle, std::uint64_t address) = nullptr;
  int (*get_bus_id)(char* id, int bytes, int device) = nullptr;
  void* context = nullptr;
  std::array<char, 32> bus_id = {};
};

template <typename Function>
bool Find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

bool FindAll(void* library, Driver& driver) {
  return Find(library, "cuInit", driver.init) && Find(library, "cuDeviceGet", driver.device_get) &&
         Find(library, "cuDevicePrimaryCtxRetain", driver.retain) &&
         Find(library, "cuCtxSetCurrent", driver.set_current) &&
         Find(library, "cuMemAlloc_v2", driver.allocate) && Find(library, "cuMemFree_v2", driver.free) &&
         Find(library, "cuMemcpyHtoD_v2", driver.copy) &&
         Find(library, "cuIpcGetMemHandle", driver.get_handle) &&
         Find(library, "cuDeviceGetPCIBusId", driver.get_bus_id);
}

// The driver with the first GPU's context; null if there is none.
const Driver* FindDriver() {
  static const Driver* const found = []() -> const Driver* {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    auto* const driver = new Driver;
    int device = 0;
    const bool works = library != nullptr && FindAll(library, *driver) && driver->init(0) == 0 &&
                       driver->device_get(&device, 0) == 0 && driver->retain(&driver->context, device) == 0 &&
                       driver->get_bus_id(driver->bus_id.data(), driver->bus_id.size(), device) == 0;
    return works ? driver : nullptr;
  }();
  return found;
}

}  // namespace

absl::StatusOr<GpuMemory> GpuMemory::Allocate(std::size_t bytes) {
  const Driver* const driver = FindDriver();
  if (driver == nullptr) return absl::UnavailableError("this machine has no NVIDIA GPU, or no driver for it");
  GpuMemory memory;
  memory.bytes_ = bytes;
  Handle handle;
  if (driver->set_current(driver->context) != 0 || driver->allocate(&memory.address_, bytes) != 0 ||
      driver->get_handle(&handle, memory.address_) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("the GPU has no ", bytes, " bytes to share"));
  }
  std::memcpy(memory.handle_.data(), &handle, sizeof(handle));
  return memory;
}

absl::StatusOr<GpuMemory> GpuMemory::CopyOf(std::span<const std::byte> bytes) {
  absl::StatusOr<GpuMemory> memory = Allocate(bytes.size());
  if (memory.ok() && FindDriver()->copy(memory->address_, bytes.data(), bytes.size()) != 0) {
    return absl::UnavailableError("the GPU takes no copy");
  }
  return memory;
}

GpuMemory::GpuMemory(GpuMemory&& other) noexcept
    : address_(std::exchange(other.address_, 0)), bytes_(other.bytes_), handle_(other.handle_) {}

GpuRange GpuMemory::range() const {
  return {.handle = handle_, .pci_bus_id = FindDriver()->bus_id.data(), .byte_count = bytes_};
}

GpuMemory::~GpuMemory() {
  if (address_ == 0) return;
  const Driver& driver = *FindDriver();
  if (driver.set_current(driver.context) == 0) driver.free(address_);
}

}  // namespace warpfold::cli
