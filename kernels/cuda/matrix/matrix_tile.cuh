// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How lanes share the product of two matrices in shared memory: each computes a tile of it in registers, and
// every factor that it reads serves a whole row or column of the tile. (The register tiling of V. Volkov, J.
// W. Demmel, "Benchmarking GPUs to tune dense linear algebra", SC 2008.)
#pragma once

#include <cstdint>

#include "kernels/cuda/matrix/matrix_plan.h"
#include "kernels/cuda/tuning.h"
#include "kernels/cuda/warp.cuh"
#include "kernels/geometry.h"
#include "kernels/operators/matrix_terms.h"

namespace warpfold::kernels::cuda {

// All shared memory of a block, as entries.
template <class Entry>
__device__ __forceinline__ Entry* SharedEntries() {
  extern __shared__ uint4 shared_memory[];
  return reinterpret_cast<Entry*>(shared_memory);
}

// Waits for all threads of a block that computes tiles of this kind. A block of one warp needs no barrier of
// the block for that.
template <class Tile>
__device__ __forceinline__ void SynchronizeBlockOf() {
  if constexpr (Tile::kThreads == kLanes) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

// kLaneRows x kLaneColumns lanes, each with kRows x kColumns entries of the product. A lane's rows are
// kLaneRows apart, and its columns, or 16-byte vectors of them, kLaneColumns: then lanes that read at once
// read adjacent vectors. Tiles may extend beyond the matrices: the entries there are computed and discarded.
//
// kFixedDimension: the dimension, with rows that are whole vectors; 0 if it is known only at run time.
template <class Terms_, int kLaneRows, int kLaneColumns, int kRows_, int kColumns_, int kFixedDimension>
class MatrixTile {
 public:
  using Terms = Terms_;
  using Entry = typename Terms::Entry;
  static constexpr std::uint32_t kDimension = kFixedDimension;  // or 0
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kLanesEach = kLaneRows * kLaneColumns;
  static constexpr int kThreads = kLanesEach < kLanes ? static_cast<int>(kLanes) : kLanesEach;  // of a block
  static constexpr int kProducts = kThreads / kLanesEach;  // that it computes at once
  static constexpr int kPaddedDimension = kLaneRows * kRows;
  static constexpr int kVector = kFixedDimension > 0 ? kVectorBytes / static_cast<int>(sizeof(Entry)) : 1;
  static WARPFOLD_FN constexpr TileShape Shape() {
    return {sizeof(Entry),    kLaneRows, kLaneColumns,
            kPaddedDimension, kVector,   TileWaitingLevels(kPaddedDimension)};
  }
  // The gap between rows in shared memory.
  static constexpr std::uint32_t kRowGap = Shape().RowStride(kFixedDimension) - kFixedDimension;
  static constexpr int kBlocksPerMultiprocessor = MatrixTileBlocks(sizeof(Entry), kThreads);
  static_assert(kPaddedDimension == kLaneColumns * kColumns && kFixedDimension % kVector == 0);

  // The tile's place is that of `lane` among the lanes of its product.
  __device__ MatrixTile(const Terms& terms, int lane, int dimension)
      : terms_(terms),
        row_(static_cast<int>(Shape().PlaceOf(lane).row)),
        column_(static_cast<int>(Shape().PlaceOf(lane).column) * kVector),
        dimension_(kFixedDimension > 0 ? kFixedDimension : dimension) {}

  // The distance between rows in shared memory.
  __device__ int row_stride() const { return static_cast<int>(Shape().RowStride(dimension_)); }

  // Multiplies the matrices that begin at these entries of shared memory. Each entry's terms are added in
  // order, and none from beyond the matrices, where there may be arbitrary data.
  __device__ __forceinline__ void Multiply(std::uint32_t a, std::uint32_t b) {
#pragma unroll
    for (int pass = 0; pass < kRows; pass += kPassRows) {
      typename Terms::Sum sums[kPassRows][kColumns];
#pragma unroll
      for (int m = 0; m < kPassRows; ++m) {
#pragma unroll
        for (int n = 0; n < kColumns; ++n) sums[m][n] = Terms::Empty();
      }
#pragma unroll kUnrolledSteps
      for (int k = 0; k < dimension_; k += kVector) {
        AddTerms(a + (row_ + pass * kLaneRows) * row_stride() + k, b + k * row_stride() + column_, sums);
      }
#pragma unroll
      for (int m = 0; m < kPassRows; ++m) {
#pragma unroll
        for (int n = 0; n < kColumns; ++n) entries_[pass + m][n] = terms_.Finish(sums[m][n]);
      }
    }
  }

  __device__ __forceinline__ void Load(std::uint32_t from) {
    ForEachVector([&](int m, int n, std::uint32_t place) { LoadVector(from + place, &entries_[m][n]); });
  }
  __device__ __forceinline__ void Store(std::uint32_t to) const {
    ForEachVector([&](int m, int n, std::uint32_t place) {
      Vector vector;
#pragma unroll
      for (int v = 0; v < kVector; ++v) vector.entries[v] = entries_[m][n + v];
      *reinterpret_cast<Vector*>(SharedEntries<Entry>() + to + place) = vector;
    });
  }

 private:
  // What a lane reads at once.
  struct alignas(kVector * sizeof(Entry)) Vector {
    Entry entries[kVector];
  };

  // A pass takes as many rows at once as have their sums in registers.
  static constexpr int PassRows() {
    constexpr int kSumWords = static_cast<int>(sizeof(typename Terms::Sum) / 4) * kColumns;
    int rows = kRows;
    while (rows > 1 && (rows * kSumWords > kMaxSumWords || kRows % rows != 0)) --rows;
    return rows;
  }
  static constexpr int kPassRows = PassRows();

  static __device__ __forceinline__ void LoadVector(std::uint32_t from, Entry* to) {
    const Vector vector = *reinterpret_cast<const Vector*>(SharedEntries<Entry>() + from);
#pragma unroll
    for (int v = 0; v < kVector; ++v) to[v] = vector.entries[v];
  }

  // Adds kVector terms of each entry of the pass. `a` belongs to the pass's first row, `b` to the first
  // column.
  __device__ __forceinline__ void AddTerms(std::uint32_t a, std::uint32_t b,
                                           typename Terms::Sum (&sums)[kPassRows][kColumns]) const {
    Entry left[kPassRows][kVector];
#pragma unroll
    for (int m = 0; m < kPassRows; ++m) LoadVector(a + m * kLaneRows * row_stride(), left[m]);
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      Entry right[kColumns];
#pragma unroll
      for (int n = 0; n < kColumns; n += kVector) {
        LoadVector(b + v * row_stride() + n * kLaneColumns, &right[n]);
      }
#pragma unroll
      for (int m = 0; m < kPassRows; ++m) {
#pragma unroll
        for (int n = 0; n < kColumns; ++n) terms_.Add(sums[m][n], left[m][v], right[n]);
      }
    }
  }

  // Calls f(row of the tile, column of the tile, place in the matrix) for everything inside the matrix.
  template <class F>
  __device__ __forceinline__ void ForEachVector(F f) const {
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
#pragma unroll
      for (int n = 0; n < kColumns; n += kVector) {
        const int row = row_ + m * kLaneRows;
        const int column = column_ + n * kLaneColumns;
        if (kFixedDimension > 0 || (row < dimension_ && column < dimension_)) {
          f(m, n, static_cast<std::uint32_t>(row * row_stride() + column));
        }
      }
    }
  }

  const Terms terms_;
  const int row_;
  const int column_;
  const int dimension_;
  Entry entries_[kRows][kColumns];
};

}  // namespace warpfold::kernels::cuda
