// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a block multiplies a span of matrices: batch after batch, one product for each group of its lanes,
// while the next batch is on its way from global memory.
#pragma once

#include <cstdint>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/matrix/matrix_layout.cuh"
#include "kernels/cuda/matrix/matrix_plan.h"
#include "kernels/cuda/matrix/matrix_tile.cuh"
#include "kernels/cuda/matrix/tree_kernel.cuh"
#include "kernels/cuda/tuning.h"

namespace warpfold::kernels::cuda {

// A folder for FoldTree. A span of states is at most one batch. Ring is InRing or InResidues
// (matrix_kernel.cuh): its Lift converts an entry of an element to one that products are computed from, and
// its Finish converts an entry of a product to one of a state.
template <class Tile, class Ring>
class MatrixFolder {
 public:
  using Entry = typename Tile::Entry;
  using State = Entry;  // a node has one for each entry
  static constexpr std::uint32_t kProducts = Tile::kProducts;
  static constexpr std::uint32_t kBatch = 2 * kProducts;
  static constexpr std::uint32_t kHalf = kProducts > 1 ? kProducts / 2 : 1;

  __device__ MatrixFolder(const typename Tile::Terms& terms, const Ring& ring, const MatrixPlan& plan)
      : ring_(ring),
        plan_(plan),
        layout_(plan),
        product_(threadIdx.x / Tile::kLanesEach),
        tile_(terms, static_cast<int>(threadIdx.x % Tile::kLanesEach), static_cast<int>(plan.dimension)),
        pair_(product_ % kHalf * layout_.pair_stride()),
        place_(layout_.Offset(product_)) {}

  __device__ std::uint32_t states() const { return layout_.entries(); }

  __device__ __forceinline__ void Prefetch(const TreeSpan& span) { Request(span, 0); }

  // Folds a span, which is aligned in the tree and may be short of a complete subtree. A span of elements has
  // been prefetched, and `next`, if it is not empty, is prefetched; a span of states is at most one batch.
  // The outcome is left where Write finds it.
  __device__ __forceinline__ void Fold(const TreeSpan& span, const TreeSpan& next) {
    const std::uint32_t batches = (span.count + kBatch - 1) / kBatch;
    for (std::uint32_t i = 0; i < batches; ++i) {
      if (span.are_states) {
        layout_.Copy(span.data, span.count, plan_.state_copy_bytes, Here());
        WaitForAllCopies();
        SynchronizeBlockOf<Tile>();
      } else {
        arriving_ ^= 1;
        if (i + 1 < batches) {
          Request(span, i + 1);
        } else {
          Request(next, 0);
        }
        WaitForAllButLastCopies();
        SynchronizeBlockOf<Tile>();
        if constexpr (Ring::kMayLift) {
          if (ring_.lifts) LiftBatch();
        }
      }
      FoldBatch(min(span.count - i * kBatch, kBatch), i, batches);
    }
  }

  __device__ __forceinline__ void Write(Entry* out) const {
    for (std::uint32_t i = threadIdx.x; i < states(); i += Tile::kThreads) {
      out[i] = ring_.Finish(SharedEntries<Entry>()[Here() + layout_.PlaceOf(i)]);
    }
    SynchronizeBlockOf<Tile>();  // before something else takes its place
  }

 private:
  // The place of the batch that is being folded. Its products replace it, while the other batch arrives.
  __device__ __forceinline__ std::uint32_t Here() const { return layout_.Buffer(arriving_ ^ 1); }

  // Begins to load batch `i` of a span of elements.
  __device__ __forceinline__ void Request(const TreeSpan& span, std::uint32_t i) {
    const std::byte* const data = span.data + std::size_t{i} * kBatch * states() * sizeof(Entry);
    layout_.Copy(data, span.count - i * kBatch, plan_.copy_bytes, layout_.Buffer(arriving_));
    CommitCopies();
  }

  // Lifts the batch that has arrived, and the gaps between its pairs.
  __device__ __forceinline__ void LiftBatch() const {
    Entry* const batch = SharedEntries<Entry>() + Here();
#pragma unroll kLoadsInFlight
    for (std::uint32_t i = threadIdx.x; i < layout_.Buffer(1); i += Tile::kThreads)
      batch[i] = ring_.Lift(batch[i]);
    SynchronizeBlockOf<Tile>();
  }

  // Folds batch `i`, of `count` matrices, and with it the products that wait for it, as a binary counter
  // carries. After the last batch one matrix is left, and nothing waits.
  __device__ __forceinline__ void FoldBatch(std::uint32_t count, std::uint32_t i, std::uint32_t batches) {
    const bool last = i + 1 == batches;
    const std::uint32_t here = Here();
    std::uint32_t low = here;
    std::uint32_t high = here + layout_.Offset(kProducts);
    for (std::uint32_t level = 0;; ++level) {
      const bool pairs = (i >> level) % 2 == 1;
      const bool waits = !pairs && !last;
      count = MultiplyPairs(low, high, count, waits ? layout_.Waiting(level) : here);
      if (waits) return;
      // If there is no other batch, nothing waits anymore: then the products are multiplied with each other.
      const bool alone = (batches - 1) >> level == 0;
      if (alone && count == 1) return;
      low = pairs ? layout_.Waiting(level) : here;
      high = pairs ? here : here + layout_.Offset(kProducts);
      if (pairs) count += kProducts;
    }
  }

  // Multiplies adjacent ones among `count` matrices: kProducts from `low` on, the others from `high` on; one
  // without a right neighbour stays as it is. Returns how many are left, from `out` on, which may be the
  // place they came from.
  __device__ __forceinline__ std::uint32_t MultiplyPairs(std::uint32_t low, std::uint32_t high,
                                                         std::uint32_t count, std::uint32_t out) {
    const std::uint32_t left = (product_ < kHalf ? low : high) + pair_;
    const std::uint32_t right = kProducts > 1 ? left + layout_.matrix_stride() : high;
    if (2 * product_ + 1 < count) {
      tile_.Multiply(left, right);
    } else if (2 * product_ < count) {
      tile_.Load(left);
    }
    SynchronizeBlockOf<Tile>();  // all have read what may now be overwritten
    if (2 * product_ < count) tile_.Store(out + place_);
    SynchronizeBlockOf<Tile>();
    return (count + 1) / 2;
  }

  const Ring ring_;
  const MatrixPlan& plan_;
  const MatrixLayout<Tile> layout_;
  const std::uint32_t product_;  // that this thread takes part in, of those that the block computes at once
  Tile tile_;
  const std::uint32_t pair_;   // where its factors are, from `low` or `high` on
  const std::uint32_t place_;  // where it goes, from `out` on
  std::uint32_t arriving_ = 0;
};

}  // namespace warpfold::kernels::cuda
