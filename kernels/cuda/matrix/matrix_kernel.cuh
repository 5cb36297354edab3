// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The product of an array of matrices whose entries are shared by a block's lanes. It is one launch of blocks
// of one warp, or of two warps for 32 x 32; tree_schedule.h says how they share the work and how their
// results are combined.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <type_traits>
#include <utility>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/matrix/matrix_folder.cuh"
#include "kernels/cuda/matrix/matrix_plan.h"
#include "kernels/cuda/matrix/matrix_tile.cuh"
#include "kernels/cuda/matrix/tensor_tile.cuh"
#include "kernels/cuda/matrix/tree_kernel.cuh"
#include "kernels/cuda/tuning.h"

namespace warpfold::kernels::cuda {

// A Ring of a MatrixFolder, which says what terms consist of, and what an entry of a product becomes in a
// state that others see. This one is for products without a modulus: an entry stays as it is.
template <RingElement T>
struct InRing {
  using Terms = RingTerms<T>;
  static constexpr bool kMayLift = false;
  InRing(const OperatorParameters&, bool) {}
  __device__ Terms terms() const { return {}; }
  __device__ Terms::Entry Finish(Terms::Entry entry) const { return entry; }
};

// The Ring for products with a modulus. Signed and unsigned elements of the same width share kernels: they
// differ only in that entries of signed elements are lifted, that is, replaced by congruent numbers that are
// not negative.
template <class Word>
struct InResidues {
  using Terms = CongruentTerms<Word>;
  static constexpr bool kMayLift = true;

  InResidues(const OperatorParameters& parameters, bool is_signed)
      : residues(static_cast<Word>(parameters.modulus)),
        congruences(static_cast<Word>(parameters.modulus)),
        lifts(is_signed) {}
  __device__ Terms terms() const { return {congruences}; }
  __device__ Word Lift(Word bits) const { return congruences.OfSigned(bits); }
  __device__ Word Finish(Word entry) const { return residues.Of(entry); }

  Residues<Word> residues;
  Congruences<Word> congruences;
  bool lifts;
};

template <class Tile, class Ring>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerMultiprocessor)
    MatrixKernel(Ring ring, Range range, MatrixPlan plan, Workspace workspace) {
  MatrixFolder<Tile, Ring> folder(ring.terms(), ring, plan);
  FoldTree(range, plan.tree, workspace, folder);
}

// How much shared memory a block may have on the current device.
inline cudaError_t MostSharedBytes(std::uint32_t* bytes) {
  int device = 0;
  const cudaError_t current = cudaGetDevice(&device);
  if (current != cudaSuccess) return current;
  int of_device = 0;
  const cudaError_t asked =
      cudaDeviceGetAttribute(&of_device, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  *bytes = std::min(kMaxTileSharedBytes, static_cast<std::uint32_t>(of_device));
  return asked;
}

// How many blocks with `shared_bytes` of shared memory a multiprocessor of the current device holds at once:
// queried once for each device and size, not at every launch.
template <class Tile, class Ring>
cudaError_t ResidentTileBlocks(std::uint32_t shared_bytes, std::uint32_t most_shared_bytes, int* blocks) {
  static std::mutex mutex;
  static std::map<std::pair<int, std::uint32_t>, int> known;  // by device and size
  int device = 0;
  const cudaError_t current = cudaGetDevice(&device);
  if (current != cudaSuccess) return current;
  const std::lock_guard lock(mutex);
  const auto found = known.find({device, shared_bytes});
  if (found != known.end()) {
    *blocks = found->second;
    return cudaSuccess;
  }
  const auto kernel = MatrixKernel<Tile, Ring>;
  // The kernel takes all shared memory that the GPU has, for as many warps as fit: the first-level cache is
  // of no use to them.
  const cudaError_t preferred = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                                     cudaSharedmemCarveoutMaxShared);
  if (preferred != cudaSuccess) return preferred;
  const cudaError_t allowed = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   static_cast<int>(most_shared_bytes));
  if (allowed != cudaSuccess) return allowed;
  const cudaError_t counted =
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, Tile::kThreads, shared_bytes);
  if (counted == cudaSuccess) known[{device, shared_bytes}] = *blocks;
  return counted;
}

template <class Tile, class Ring>
cudaError_t LaunchTile(const OperatorParameters& parameters, bool is_signed, const Range& range,
                       std::uint32_t dimension, const Workspace& workspace, cudaStream_t stream) {
  static const PairStrides strides = PairStridesOf(Tile::Shape());
  std::uint32_t most_shared_bytes = 0;
  const cudaError_t asked = MostSharedBytes(&most_shared_bytes);
  if (asked != cudaSuccess) return asked;
  const MatrixPlan plan = PlanMatrices(Tile::Shape(), dimension, strides[dimension], range.first_leaf,
                                       range.element_count, workspace.multiprocessors, most_shared_bytes);
  int resident = 0;
  const cudaError_t counted = ResidentTileBlocks<Tile, Ring>(plan.shared_bytes, most_shared_bytes, &resident);
  if (counted != cudaSuccess) return counted;
  const auto most = static_cast<std::uint64_t>(resident) * workspace.multiprocessors;
  const std::uint64_t blocks = std::min(plan.tree.tasks(), most);
  return LaunchKernel<MatrixKernel<Tile, Ring>>(
      {static_cast<unsigned>(blocks), Tile::kThreads, plan.shared_bytes}, stream, Ring(parameters, is_signed),
      range, plan, workspace);
}

// The tile with number `kTuning` in the table of tuning.h.
template <class Terms, std::size_t kTuning>
constexpr auto TileOf() {
  constexpr TileTuning kTile = kTileTunings[kTuning];
  constexpr int kDimension = kTile.is_fixed ? static_cast<int>(kTile.largest_dimension) : 0;
  if constexpr (std::is_same_v<typename Terms::Entry, std::uint32_t> && kDimension >= 16) {
    return std::type_identity<TensorTile<Terms, kDimension>>();
  } else {
    return std::type_identity<
        MatrixTile<Terms, kTile.lane_rows, kTile.lane_columns, kTile.rows, kTile.columns, kDimension>>();
  }
}

template <class Ring>
cudaError_t LaunchAnyTile(const OperatorParameters& parameters, bool is_signed, const Range& range,
                          const Workspace& workspace, cudaStream_t stream) {
  using Terms = typename Ring::Terms;
  std::uint32_t d = 1;
  while (d * d < range.entries) ++d;
  // This launches with the first tile of the table that covers the dimension.
  cudaError_t error = cudaErrorInvalidValue;
  const auto launched = [&]<std::size_t kTuning>() {
    if (d > kTileTunings[kTuning].largest_dimension) return false;
    using Tile = typename decltype(TileOf<Terms, kTuning>())::type;
    error = LaunchTile<Tile, Ring>(parameters, is_signed, range, d, workspace, stream);
    return true;
  };
  [&]<std::size_t... kTuning>(std::index_sequence<kTuning...>) {
    static_cast<void>((launched.template operator()<kTuning>() || ...));
  }
  (std::make_index_sequence<std::size(kTileTunings)>());
  return error;
}

// For square matrices of 3 rows and more.
template <RingElement T>
cudaError_t LaunchMatrices(const OperatorParameters& parameters, const Range& range,
                           const Workspace& workspace, cudaStream_t stream) {
  if constexpr (FloatElement<T>) {
    return LaunchAnyTile<InRing<T>>(parameters, true, range, workspace, stream);
  } else {
    if (parameters.modulus == 0) {
      return LaunchAnyTile<InRing<Bits<T>>>(parameters, kIsSigned<T>, range, workspace, stream);
    }
    return LaunchAnyTile<InResidues<Bits<T>>>(parameters, kIsSigned<T>, range, workspace, stream);
  }
}

}  // namespace warpfold::kernels::cuda
