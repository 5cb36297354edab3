// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A library with those of NVIDIA's functions that we use: one GPU, without power management.
#include <cstring>

namespace {
int device = 0;
int begun = 0;
constexpr int kNotSupported = 3;  // NVML_ERROR_NOT_SUPPORTED
constexpr int kNotFound = 6;      // NVML_ERROR_NOT_FOUND
}  // namespace

extern "C" {
struct Memory {
  unsigned long long total, free, used;
};
int nvmlInit_v2() { return ++begun, 0; }
int nvmlShutdown() { return --begun, 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** handle) {
  *handle = &device;
  return std::strcmp(bus_id, "0000:1B:00.0") == 0 && begun == 1 ? 0 : kNotFound;
}
int nvmlDeviceGetMemoryInfo(void* handle, Memory* memory) {
  *memory = {.total = 100, .free = 30, .used = 70};
  return handle == &device ? 0 : kNotFound;
}
int nvmlDeviceGetTemperature(void*, int sensor, unsigned* celsius) {
  *celsius = 55;
  return sensor == 0 ? 0 : kNotSupported;
}
int nvmlDeviceGetPowerUsage(void*, unsigned*) { return kNotSupported; }
int nvmlDeviceGetTotalEccErrors(void*, int kind, int since, unsigned long long* count) {
  *count = kind == 1 ? 2 : 9;
  return since == 0 ? 0 : kNotSupported;
}
}
