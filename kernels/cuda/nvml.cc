// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/nvml.h"

#include <dlfcn.h>

namespace warpfold::kernels::cuda {
namespace {

// The parts of nvml.h that we use; it is not packaged with the toolkit's runtime. These numbers and types are
// NVML's binary interface (NVML API Reference Guide, "Device Queries").
constexpr int kSuccess = 0;
constexpr int kTemperatureOfGpu = 0;
constexpr int kCorrected = 0;
constexpr int kUncorrected = 1;
constexpr int kSinceDriverLoad = 0;  // NVML_VOLATILE_ECC
struct MemoryInfo {
  unsigned long long total;  // NOLINT(google-runtime-int): NVML's type, as below
  unsigned long long free;   // NOLINT(google-runtime-int)
  unsigned long long used;   // NOLINT(google-runtime-int)
};

template <class Function>
bool Find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

// The library, initialised; it is shut down and closed with this object.
struct Nvml::Library {
  ~Library() {
    if (begun) end();
    if (handle != nullptr) dlclose(handle);
  }

  bool Open(const char* name) {
    handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    begun = handle != nullptr && Find(handle, "nvmlInit_v2", begin) && Find(handle, "nvmlShutdown", end) &&
            Find(handle, "nvmlDeviceGetHandleByPciBusId_v2", device_by_bus_id) &&
            Find(handle, "nvmlDeviceGetMemoryInfo", memory) &&
            Find(handle, "nvmlDeviceGetTemperature", temperature) &&
            Find(handle, "nvmlDeviceGetPowerUsage", power) &&
            Find(handle, "nvmlDeviceGetTotalEccErrors", errors) && begin() == kSuccess;
    return begun;
  }

  void* handle = nullptr;
  bool begun = false;
  int (*begin)() = nullptr;
  int (*end)() = nullptr;
  int (*device_by_bus_id)(const char*, void**) = nullptr;
  int (*memory)(void*, MemoryInfo*) = nullptr;
  int (*temperature)(void*, int, unsigned*) = nullptr;
  int (*power)(void*, unsigned*) = nullptr;                       // in milliwatts
  int (*errors)(void*, int, int, unsigned long long*) = nullptr;  // NOLINT(google-runtime-int)
};

Nvml::Nvml() : library_(std::make_unique<Library>()) {}
Nvml::~Nvml() = default;

std::unique_ptr<Nvml> Nvml::Open(const char* bus_id, const char* library) {
  std::unique_ptr<Nvml> nvml(new Nvml());
  if (!nvml->library_->Open(library)) return nullptr;
  if (nvml->library_->device_by_bus_id(bus_id, &nvml->device_) != kSuccess) return nullptr;
  return nvml;
}

DeviceTelemetry Nvml::Read() const {
  DeviceTelemetry telemetry;
  if (MemoryInfo memory = {}; library_->memory(device_, &memory) == kSuccess) {
    telemetry.memory_bytes = memory.total;
    telemetry.memory_used_bytes = memory.used;
  }
  if (unsigned celsius = 0; library_->temperature(device_, kTemperatureOfGpu, &celsius) == kSuccess) {
    telemetry.temperature_celsius = celsius;
  }
  if (unsigned milliwatts = 0; library_->power(device_, &milliwatts) == kSuccess) {
    telemetry.power_watts = milliwatts / 1000.0;
  }
  const auto errors = [this](int kind) -> std::optional<std::uint64_t> {
    unsigned long long count = 0;  // NOLINT(google-runtime-int): NVML's type
    if (library_->errors(device_, kind, kSinceDriverLoad, &count) != kSuccess) return std::nullopt;
    return count;
  };
  telemetry.corrected_errors = errors(kCorrected);
  telemetry.uncorrected_errors = errors(kUncorrected);
  return telemetry;
}

}  // namespace warpfold::kernels::cuda
