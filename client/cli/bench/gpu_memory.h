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

#include "absl/status/statusor.h"
#include "client/shared_memory.h"

namespace warpfold::cli {

class GpuMemory {
 public:
  // These allocate on the first GPU. UNAVAILABLE if there is none.
  static absl::StatusOr<GpuMemory> Allocate(std::size_t bytes);
  static absl::StatusOr<GpuMemory> CopyOf(std::span<const std::byte> bytes);
  GpuMemory(GpuMemory&& other) noexcept;
  GpuMemory& operator=(GpuMemory&&) = delete;
  ~GpuMemory();

  // What another process needs to open the memory. Refers to this object.
  GpuRange range() const;

 private:
  GpuMemory() = default;
  std::uint64_t address_ = 0;
  std::size_t bytes_ = 0;
  std::array<std::byte, 64> handle_ = {};
};

}  // namespace warpfold::cli
