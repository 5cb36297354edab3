// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// GPU memory as a CUDA program would allocate it, for --source ipc and --results gpu. It loads the driver
// library with dlopen when needed, so that the command line builds without CUDA and runs on machines without
// a GPU.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace warpfold::cli {

class GpuMemory {
 public:
  // These allocate on the first GPU. UNAVAILABLE if there is none.
  static absl::StatusOr<GpuMemory> Allocate(std::size_t bytes);
  static absl::StatusOr<GpuMemory> CopyOf(std::span<const std::byte> bytes);
  GpuMemory(GpuMemory&& other) noexcept;
  GpuMemory& operator=(GpuMemory&&) = delete;
  ~GpuMemory();

  // The cudaIpcMemHandle_t with which another process can open the memory.
  std::span<const std::byte> handle() const { return handle_; }
  // The PCI bus id of the GPU.
  static std::string pci_bus_id();

 private:
  GpuMemory() = default;
  std::uint64_t address_ = 0;
  std::array<std::byte, 64> handle_ = {};
};

}  // namespace warpfold::cli
