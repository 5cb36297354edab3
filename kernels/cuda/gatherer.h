// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Brings pieces of the host's memory together on the device, if copy commands would be too many: with one for
// each piece of 16 KiB they reach 4.5 GB/s, and the kernel 44 (docs/data-path.md).
//
// Threads: only one caller at a time, with one stream. All memory is allocated by Create.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/gather.h"

namespace warpfold::kernels::cuda {

class Gatherer {
 public:
  // Takes up to `max_pieces` pieces with `max_bytes` in total.
  static absl::StatusOr<std::unique_ptr<Gatherer>> Create(std::size_t max_bytes, std::size_t max_pieces);
  ~Gatherer();
  Gatherer(const Gatherer&) = delete;
  Gatherer& operator=(const Gatherer&) = delete;

  // Enqueues the copy of the pieces, one after the other, to `target` (device memory, at any alignment), and
  // returns without waiting. Not to be called before the stream has finished the last copy.
  // cudaErrorInvalidValue for more than Create was given.
  cudaError_t Launch(std::span<const HostPiece> pieces, std::byte* target, cudaStream_t stream);

 private:
  explicit Gatherer(std::size_t max_tiles) : max_tiles_(max_tiles) {}
  absl::Status Allocate();

  const std::size_t max_tiles_;
  Tile* tiles_ = nullptr;         // mapped host memory, as the host sees it
  Tile* device_tiles_ = nullptr;  // and as the device does
};

}  // namespace warpfold::kernels::cuda
