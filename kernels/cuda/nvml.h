// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One GPU as NVIDIA's management library (NVML) sees it: what CUDA does not report, and what CUDA would
// report only through the context that reductions use. The library comes with the driver and is opened at run
// time: a server starts without it.
//
// Threads: Read may be called from any thread; the library takes concurrent calls.
#pragma once

#include <memory>

#include "kernels/telemetry.h"

namespace warpfold::kernels::cuda {

class Nvml {
 public:
  static constexpr char kLibrary[] = "libnvidia-ml.so.1";

  // `bus_id` is that of cudaDeviceGetPCIBusId: NVML counts GPUs in a different order from CUDA. Null if there
  // is no such library, or it does not know the GPU.
  static std::unique_ptr<Nvml> Open(const char* bus_id, const char* library = kLibrary);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // Asks the driver.
  DeviceTelemetry Read() const;

 private:
  struct Library;

  Nvml();

  std::unique_ptr<Library> library_;
  void* device_ = nullptr;
};

}  // namespace warpfold::kernels::cuda
