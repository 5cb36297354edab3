// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a warp multiplies a run of matrices: batch after batch, each a product for every group of its lanes,
// while the next one is on its way from global memory.
//
// The warp's shared memory, in entries. A pair is two neighbouring matrices, and what keeps the pairs that
// are read at once in different banks.
//
//   2 batches               kProducts pairs each: the one that is folded, and the one that arrives
//   plan.waiting_levels     kProducts matrices each: products that wait for their right neighbours
#pragma once

#include <cstdint>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/matrix_plan.h"
#include "kernels/cuda/matrix_tile.cuh"
#include "kernels/cuda/tree_kernel.cuh"

namespace warpfold::kernels::cuda {

// What FoldTree asks of a folder, for a block that is one warp. A run of states is a batch at most. Lift: an
// entry of an element to one of its state; Lift::kIsNeeded.
template <class Tile, class Lift>
class MatrixFolder {
 public:
  using Entry = typename Tile::Entry;
  using State = Entry;  // a node has one for each entry
  static constexpr std::uint32_t kProducts = Tile::kProducts;
  static constexpr std::uint32_t kBatch = 2 * kProducts;

  __device__ MatrixFolder(const typename Tile::Terms& terms, const Lift& lift, const MatrixPlan& plan)
      : lift_(lift),
        plan_(plan),
        lane_(threadIdx.x % kLanes),
        product_(lane_ / Tile::kLanesEach),
        tile_(terms, static_cast<int>(lane_ % Tile::kLanesEach), static_cast<int>(plan.dimension)),
        entries_(static_cast<std::uint32_t>(tile_.dimension() * tile_.dimension())) {}

  __device__ std::uint32_t states() const { return entries_; }

  __device__ __forceinline__ void Prefetch(const TreeRun& run) { Request(run, 0); }

  // Folds a run, which is aligned in the tree and may be short of a complete subtree. One of elements has
  // been prefetched, and `next`, if it is not empty, is prefetched; one of states is a batch at most. The
  // outcome is where Write finds it.
  __device__ __forceinline__ void Fold(const TreeRun& run, const TreeRun& next) {
    const std::uint32_t batches = (run.count + kBatch - 1) / kBatch;
    for (std::uint32_t i = 0; i < batches; ++i) {
      if (run.are_states) {
        CopyPlainly(reinterpret_cast<const Entry*>(run.data), run.count, Here());
        __syncwarp();
      } else {
        arriving_ ^= 1;
        if (i + 1 < batches) {
          Request(run, i + 1);
        } else {
          Request(next, 0);
        }
        WaitForAllButLastCopies();
        __syncwarp();
        if constexpr (Lift::kIsNeeded) LiftBatch();
      }
      FoldBatch(min(run.count - i * kBatch, kBatch), i, batches);
    }
  }

  __device__ __forceinline__ void Write(Entry* out) const {
    for (std::uint32_t i = lane_; i < entries_; i += kLanes) out[i] = SharedEntries<Entry>()[Here() + i];
    __syncwarp();  // before something else takes its place
  }

 private:
  // The batch that is folded, whose place its products take; the other one arrives.
  __device__ __forceinline__ std::uint32_t Here() const { return Buffer(arriving_ ^ 1); }
  __device__ __forceinline__ std::uint32_t Buffer(std::uint32_t buffer) const {
    return buffer * kProducts * plan_.pair_stride;
  }
  __device__ __forceinline__ std::uint32_t Waiting(std::uint32_t level) const {
    return 2 * kProducts * plan_.pair_stride + level * plan_.waiting_stride;
  }
  // Of a matrix among those of a batch.
  __device__ __forceinline__ std::uint32_t Offset(std::uint32_t matrix) const {
    return matrix / 2 * plan_.pair_stride + matrix % 2 * entries_;
  }

  // Begins to load batch `i` of a run. What is not a full batch is loaded at once.
  __device__ __forceinline__ void Request(const TreeRun& run, std::uint32_t i) {
    const std::uint32_t to = Buffer(arriving_);
    const std::byte* const data = run.data + std::size_t{i} * kBatch * entries_ * sizeof(Entry);
    const std::uint32_t count = run.count - i * kBatch;
    if (count < kBatch) {
      CopyPlainly(reinterpret_cast<const Entry*>(data), count, to);
    } else if (Tile::kVector > 1 || plan_.piece_bytes == 16) {
      CopyPieces<16>(data, to);
    } else if (plan_.piece_bytes == 8) {
      CopyPieces<8>(data, to);
    } else {
      CopyPieces<sizeof(Entry)>(data, to);
    }
    CommitCopies();
  }

  template <int kBytes>
  __device__ __forceinline__ void CopyPieces(const std::byte* data, std::uint32_t to) const {
    constexpr std::uint32_t kEntriesEach = kBytes / sizeof(Entry);
    const std::uint32_t pieces = 2 * entries_ / kEntriesEach;  // of a pair
    std::uint32_t pair = lane_ / pieces;
    std::uint32_t piece = lane_ % pieces;
#pragma unroll 8
    for (std::uint32_t i = lane_; i < kProducts * pieces; i += kLanes) {
      CopyAsync<kBytes>(SharedEntries<Entry>() + to + pair * plan_.pair_stride + piece * kEntriesEach,
                        data + std::size_t{i} * kBytes);
      pair += kLanes / pieces;
      piece += kLanes % pieces;
      if (piece >= pieces) {
        piece -= pieces;
        ++pair;
      }
    }
  }

  // Past the first-level cache: other warps have written states since this one began.
  __device__ __forceinline__ void CopyPlainly(const Entry* data, std::uint32_t count,
                                              std::uint32_t to) const {
    for (std::uint32_t matrix = 0; matrix < count; ++matrix) {
#pragma unroll 4
      for (std::uint32_t i = lane_; i < entries_; i += kLanes) {
        SharedEntries<Entry>()[to + Offset(matrix) + i] = __ldcg(data + std::size_t{matrix} * entries_ + i);
      }
    }
  }

  // The batch that has arrived, and the gaps between its pairs.
  __device__ __forceinline__ void LiftBatch() const {
    Entry* const batch = SharedEntries<Entry>() + Here();
#pragma unroll 4
    for (std::uint32_t i = lane_; i < kProducts * plan_.pair_stride; i += kLanes) batch[i] = lift_(batch[i]);
    __syncwarp();
  }

  // Folds batch `i`, of `count` matrices, and with it, as a binary counter carries, the products that wait
  // for it. After the last batch one matrix is left, and nothing waits.
  __device__ __forceinline__ void FoldBatch(std::uint32_t count, std::uint32_t i, std::uint32_t batches) {
    const bool last = i + 1 == batches;
    const std::uint32_t here = Here();
    std::uint32_t low = here;
    std::uint32_t high = here + Offset(kProducts);
    for (std::uint32_t level = 0;; ++level) {
      const bool pairs = (i >> level) % 2 == 1;
      const bool waits = !pairs && !last;
      count = MultiplyPairs(low, high, count, waits ? Waiting(level) : here);
      if (waits) return;
      // Nothing waits any more where there is no other batch: then the products are multiplied by themselves.
      const bool alone = (batches - 1) >> level == 0;
      if (alone && count == 1) return;
      low = pairs ? Waiting(level) : here;
      high = pairs ? here : here + Offset(kProducts);
      if (pairs) count += kProducts;
    }
  }

  // Multiplies neighbours among `count` matrices: kProducts from `low` on, the others from `high` on; one
  // without a right neighbour stays as it is. Returns how many are left, from `out` on, which may be where
  // they came from.
  __device__ __forceinline__ std::uint32_t MultiplyPairs(std::uint32_t low, std::uint32_t high,
                                                         std::uint32_t count, std::uint32_t out) {
    const std::uint32_t left = 2 * product_;
    const std::uint32_t right = left + 1;
    const auto place = [&](std::uint32_t matrix) {
      return matrix < kProducts ? low + Offset(matrix) : high + Offset(matrix - kProducts);
    };
    if (right < count) {
      tile_.Multiply(place(left), place(right));
    } else if (left < count) {
      tile_.Load(place(left));
    }
    __syncwarp();  // all have read what may now be overwritten
    if (left < count) tile_.Store(out + Offset(product_));
    __syncwarp();
    return (count + 1) / 2;
  }

  const Lift lift_;
  const MatrixPlan& plan_;
  const std::uint32_t lane_;
  const std::uint32_t product_;  // of those that the warp computes at once, the one this lane takes part in
  Tile tile_;
  const std::uint32_t entries_;
  std::uint32_t arriving_ = 0;
};

}  // namespace warpfold::kernels::cuda
