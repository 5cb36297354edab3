// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory of a GPU, as a program that computes there would have it. By way of the driver's library, which is
// looked for when it is needed: the command line runs where there is none, and is built without CUDA.
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
  // Allocates on the first GPU. UNAVAILABLE where there is none.
  static absl::StatusOr<GpuMemory> CopyOf(std::span<const std::byte> bytes);
  GpuMemory(GpuMemory&& other) noexcept;
  GpuMemory& operator=(GpuMemory&&) = delete;
  ~GpuMemory();

  // The handle by which another process can open it.
  std::span<const std::byte> handle() const { return handle_; }
  // The PCI bus id of the GPU.
  static std::string pci_bus_id();

 private:
  GpuMemory() = default;
  std::uint64_t address_ = 0;
  std::array<std::byte, 64> handle_ = {};
};

}  // namespace warpfold::cli
