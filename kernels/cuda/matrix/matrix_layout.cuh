// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the matrices of a block lie in its shared memory, in entries, and how they get there. A pair is two
// adjacent matrices, and a gap that keeps the pairs that are read at once in different banks.
//
//   2 batches               kProducts pairs each: the one that is folded, and the one that arrives
//   plan.waiting_levels     kProducts matrices each: products that wait for their right neighbours
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/matrix/matrix_plan.h"
#include "kernels/cuda/matrix/matrix_tile.cuh"
#include "kernels/cuda/tuning.h"

namespace warpfold::kernels::cuda {

template <class Tile>
class MatrixLayout {
 public:
  using Entry = typename Tile::Entry;
  static constexpr std::uint32_t kProducts = Tile::kProducts;
  static constexpr std::uint32_t kBatch = 2 * kProducts;

  __device__ MatrixLayout(const MatrixPlan& plan) : plan_(plan) {}

  __device__ __forceinline__ std::uint32_t dimension() const {
    return kIsFixed ? Tile::kDimension : plan_.dimension;
  }
  __device__ __forceinline__ std::uint32_t entries() const { return dimension() * dimension(); }
  __device__ __forceinline__ std::uint32_t matrix_stride() const {
    return entries() + dimension() * Tile::kRowGap;
  }
  __device__ __forceinline__ std::uint32_t pair_stride() const {
    return kIsFixed ? kFixedPairStride : plan_.pair_stride;
  }

  __device__ __forceinline__ std::uint32_t Buffer(std::uint32_t buffer) const {
    return buffer * kProducts * pair_stride();
  }
  __device__ __forceinline__ std::uint32_t Waiting(std::uint32_t level) const {
    return Buffer(2) + level * plan_.waiting_stride;
  }
  // The place of a matrix among those of a batch.
  __device__ __forceinline__ std::uint32_t Offset(std::uint32_t matrix) const {
    return matrix / 2 * pair_stride() + matrix % 2 * matrix_stride();
  }
  // The place of an entry of a matrix, or of a pair.
  __device__ __forceinline__ std::uint32_t PlaceOf(std::uint32_t entry) const {
    return entry + (Tile::kRowGap > 0 ? entry / dimension() * Tile::kRowGap : 0);
  }

  // Begins to load up to a batch, with asynchronous copies of at most `copy_bytes`; less than a full batch is
  // loaded immediately. All threads of the block call it.
  __device__ __forceinline__ void Copy(const std::byte* data, std::uint32_t count, std::uint32_t copy_bytes,
                                       std::uint32_t to) const {
    if (count < kBatch) {
      CopyPlainly(reinterpret_cast<const Entry*>(data), count, to);
    } else if constexpr (kIsFixed) {
      CopyVectors(data, to);
    } else if (copy_bytes == 16) {
      CopyBy<16>(data, to);
    } else if (copy_bytes == 8) {
      CopyBy<8>(data, to);
    } else {
      CopyBy<sizeof(Entry)>(data, to);
    }
  }

 private:
  static constexpr bool kIsFixed = Tile::kDimension > 0;
  static constexpr std::uint32_t kFixedPairStride =
      kIsFixed ? PairStride(Tile::Shape(), Tile::kDimension) : 0;

  static __device__ __forceinline__ Entry* Shared(std::uint32_t place) {
    return SharedEntries<Entry>() + place;
  }

  // States of other blocks are visible, because their tickets have been acquired (ticket.cuh).
  __device__ __forceinline__ void CopyPlainly(const Entry* data, std::uint32_t count,
                                              std::uint32_t to) const {
    for (std::uint32_t matrix = 0; matrix < count; ++matrix) {
#pragma unroll kLoadsInFlight
      for (std::uint32_t i = threadIdx.x; i < entries(); i += Tile::kThreads) {
        *Shared(to + Offset(matrix) + PlaceOf(i)) = __ldcg(data + std::size_t{matrix} * entries() + i);
      }
    }
  }

  // Only the place of a thread's first vector depends on the thread: the others are at constant distances, so
  // that no instructions are left except the copies.
  __device__ __forceinline__ void CopyVectors(const std::byte* data, std::uint32_t to) const {
    constexpr std::uint32_t kVectors = kBatch * Tile::kDimension * Tile::kDimension / Tile::kVector;
    constexpr std::uint32_t kOfPair = kVectors / kProducts;
    constexpr std::uint32_t kOfRow = Tile::kDimension / Tile::kVector;
    static_assert(kVectors % Tile::kThreads == 0 && Tile::kThreads % kOfRow == 0 &&
                  (Tile::kThreads % kOfPair == 0 || kOfPair % Tile::kThreads == 0));
    const auto place = [this](std::uint32_t vector) {
      return vector / kOfPair * kFixedPairStride + PlaceOf(vector % kOfPair * Tile::kVector);
    };
    Entry* const first = Shared(to + place(threadIdx.x));
    const std::byte* const from = data + threadIdx.x * kVectorBytes;
#pragma unroll
    for (std::uint32_t i = 0; i < kVectors; i += Tile::kThreads) {
      CopyAsync<kVectorBytes>(first + place(i), from + i * kVectorBytes);
    }
  }

  template <int kBytes>
  __device__ __forceinline__ void CopyBy(const std::byte* data, std::uint32_t to) const {
    constexpr std::uint32_t kEntriesEach = kBytes / sizeof(Entry);
    const std::uint32_t copies = 2 * entries() / kEntriesEach;  // of a pair
    std::uint32_t pair = threadIdx.x / copies;
    std::uint32_t copy = threadIdx.x % copies;
#pragma unroll kCopiesInFlight
    for (std::uint32_t i = threadIdx.x; i < kProducts * copies; i += Tile::kThreads) {
      CopyAsync<kBytes>(Shared(to + pair * pair_stride() + copy * kEntriesEach),
                        data + std::size_t{i} * kBytes);
      pair += Tile::kThreads / copies;
      copy += Tile::kThreads % copies;
      if (copy >= copies) {
        copy -= copies;
        ++pair;
      }
    }
  }

  const MatrixPlan& plan_;
};

}  // namespace warpfold::kernels::cuda
