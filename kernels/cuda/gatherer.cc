// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gatherer.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/fault.h"
#include "kernels/cuda/slot_memory.h"
#include "kernels/geometry.h"

namespace warpfold::kernels::cuda {

absl::StatusOr<std::unique_ptr<Gatherer>> Gatherer::Create(std::size_t max_bytes, std::size_t max_pieces) {
  static_assert(sizeof(Tile) == kGatherTileBytes);
  std::unique_ptr<Gatherer> gatherer(new Gatherer(GatherTiles(max_bytes, max_pieces)));
  const absl::Status allocated = gatherer->Allocate();
  return CompleteOrAbandon(std::move(gatherer), allocated);
}

absl::Status Gatherer::Allocate() {
  WARPFOLD_RETURN_IF_CUDA_ERROR(
      cudaHostAlloc(reinterpret_cast<void**>(&tiles_), max_tiles_ * sizeof(Tile), cudaHostAllocMapped));
  WARPFOLD_RETURN_IF_CUDA_ERROR(
      cudaHostGetDevicePointer(reinterpret_cast<void**>(&device_tiles_), tiles_, 0));
  return absl::OkStatus();
}

Gatherer::~Gatherer() { cudaFreeHost(tiles_); }

cudaError_t Gatherer::Launch(std::span<const HostPiece> pieces, std::byte* target, cudaStream_t stream) {
  std::size_t tiles = 0;
  // Places are counted from the aligned vector in which the target begins.
  std::uint64_t to = reinterpret_cast<std::uintptr_t>(target) % kVectorBytes;
  target -= to;
  for (const HostPiece piece : pieces) {
    for (std::size_t done = 0; done < piece.size();) {
      if (tiles == max_tiles_) return cudaErrorInvalidValue;
      const std::size_t n = std::min<std::size_t>(piece.size() - done, kTileBytes);
      tiles_[tiles++] = {.from = piece.data() + done, .to = to, .byte_count = n};
      done += n;
      to += n;
    }
  }
  return LaunchGather(device_tiles_, tiles, target, stream);
}

}  // namespace warpfold::kernels::cuda
