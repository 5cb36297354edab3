// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The product of an array of matrices that a warp's lanes multiply together. One launch of blocks of one
// warp, each for itself; matrix_schedule.h says how they share the work and come together.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/matrix_folder.cuh"
#include "kernels/cuda/matrix_plan.h"
#include "kernels/cuda/matrix_schedule.h"
#include "kernels/cuda/matrix_tile.cuh"
#include "kernels/cuda/ticket.cuh"

namespace warpfold::kernels::cuda {

// What entries of elements become, and what terms are made of, where there is no modulus.
template <RingElement T>
struct InRing {
  using Terms = RingTerms<T>;
  static constexpr bool kIsNeeded = false;
  __device__ InRing(const OperatorParameters&, bool) {}
  __device__ Terms terms() const { return {}; }
};

// And where there is one. Signed and unsigned elements of a width share their kernels: they differ here only.
template <class Word>
struct InResidues {
  using Terms = ResidueTerms<Word>;
  static constexpr bool kIsNeeded = true;

  __device__ InResidues(const OperatorParameters& parameters, bool is_signed)
      : residues(static_cast<Word>(parameters.modulus)), signed_elements(is_signed) {}
  __device__ Terms terms() const { return {residues}; }
  __device__ Word operator()(Word bits) const {
    return signed_elements ? static_cast<Word>(residues.Of(static_cast<std::make_signed_t<Word>>(bits)))
                           : residues.Of(bits);
  }

  Residues<Word> residues;
  bool signed_elements;
};

// The runs of elements that one warp folds: of every so manieth unit, the maximal subtrees in the range.
class ElementRuns {
 public:
  __device__ ElementRuns(const Range& range, const MatrixPlan& plan, std::uint32_t entry_bytes)
      : range_(range),
        plan_(plan),
        leaf_bytes_((std::uint64_t{plan.dimension} * plan.dimension * entry_bytes) << plan.leaf_level),
        unit_(blockIdx.x) {
    Enter();
  }

  __device__ bool any() const { return unit_ < plan_.units; }
  // In leaves.
  __device__ Subtree subtree() const { return FirstSubtree(begin_, end_, plan_.unit_level); }
  // Empty after the last one.
  __device__ MatrixRun run() const {
    if (!any()) return {};
    const std::uint64_t skipped = begin_ - range_.first_leaf;
    const std::uint64_t rest = range_.element_count - (skipped << plan_.leaf_level);
    const std::uint32_t full = 1u << (subtree().level + plan_.leaf_level);
    return {range_.data + skipped * leaf_bytes_, rest < full ? static_cast<std::uint32_t>(rest) : full,
            false};
  }
  __device__ void Advance() {
    begin_ += std::uint64_t{1} << subtree().level;
    if (begin_ < end_) return;
    unit_ += gridDim.x;
    Enter();
  }

 private:
  __device__ void Enter() {
    const MatrixRound leaves = {0, range_.first_leaf, range_.first_leaf + range_.leaf_count, 0, 0};
    const MatrixGroup unit = GroupOf(leaves, plan_.first_unit + unit_, plan_.unit_level);
    begin_ = unit.begin;
    end_ = unit.end;
  }

  const Range& range_;
  const MatrixPlan& plan_;
  const std::uint64_t leaf_bytes_;
  std::uint64_t unit_;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
};

template <class Tile, class Lift>
__global__ void __launch_bounds__(kLanes, Tile::kBlocksPerMultiprocessor)
    MatrixKernel(OperatorParameters parameters, bool is_signed, Range range, MatrixPlan plan,
                 Workspace workspace) {
  using Entry = typename Tile::Entry;
  const Lift lift(parameters, is_signed);
  MatrixFolder<Tile, Lift> folder(lift.terms(), lift, plan);
  const std::uint64_t entries = plan.dimension * plan.dimension;
  const std::uint64_t end_leaf = range.first_leaf + range.leaf_count;
  auto* const states = reinterpret_cast<Entry*>(workspace.partials);

  ElementRuns elements(range, plan, sizeof(Entry));
  folder.Prefetch(elements.run());
  // Either a run of elements is next, or the states of a group that this warp was the last to make.
  bool climbs = false;
  MatrixRound round;
  MatrixGroup group;
  while (climbs || elements.any()) {
    Subtree node;
    MatrixRun run;
    if (climbs) {
      node = FirstSubtree(group.begin, group.end, plan.group_level);
      run = {reinterpret_cast<const std::byte*>(states + (round.base + group.begin - round.begin) * entries),
             1u << node.level, true};
      group.begin += run.count;
    } else {
      node = elements.subtree();
      run = elements.run();
      elements.Advance();
    }
    folder.Fold(run, climbs ? MatrixRun() : elements.run());

    if (node.level < (climbs ? plan.group_level : plan.unit_level)) {
      node.level += climbs ? round.level : 0;
      const std::uint32_t place = PlaceOf(node, range.first_leaf, end_leaf, workspace.node_count);
      folder.Write(reinterpret_cast<Entry*>(workspace.nodes + place * workspace.node_stride));
      climbs = climbs && group.begin < group.end;
    } else {
      round = climbs ? NextRound(round, plan.group_level)
                     : FirstRound(range.first_leaf, end_leaf, plan.unit_level);
      folder.Write(states + (round.base + node.index - round.begin) * entries);
      const std::uint64_t number = node.index >> plan.group_level;
      group = GroupOf(round, number, plan.group_level);
      climbs = IsLastWarp(workspace.tickets + round.tickets + number - (round.begin >> plan.group_level),
                          static_cast<unsigned>(group.end - group.begin));
    }
  }
}

template <class Tile, class Lift>
cudaError_t LaunchTile(const OperatorParameters& parameters, bool is_signed, const Range& range,
                       std::uint32_t dimension, const Workspace& workspace, cudaStream_t stream) {
  const auto kernel = MatrixKernel<Tile, Lift>;
  // All that the GPU has, for as many warps as fit: the first-level cache is of no use to them.
  static const cudaError_t configured = [kernel] {
    cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                         cudaSharedmemCarveoutMaxShared);
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostSharedBytes);
  }();
  if (configured != cudaSuccess) return configured;

  static const PairStrides strides = PairStridesOf(Tile::kShape);
  const MatrixPlan plan = PlanMatrices(Tile::kShape, dimension, strides[dimension], range.first_leaf,
                                       range.element_count, workspace.multiprocessors);
  int resident = 0;  // of a multiprocessor
  const cudaError_t counted =
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, kLanes, plan.shared_bytes);
  if (counted != cudaSuccess) return counted;
  const auto most = static_cast<std::uint64_t>(resident) * workspace.multiprocessors;
  // As many units for each block.
  const std::uint64_t turns = (plan.units + most - 1) / most;
  const std::uint64_t blocks = (plan.units + turns - 1) / turns;
  kernel<<<static_cast<unsigned>(blocks), kLanes, plan.shared_bytes, stream>>>(parameters, is_signed, range,
                                                                               plan, workspace);
  return cudaGetLastError();
}

// Rows and columns of lanes, of a lane's tile, and the dimension: those of powers of two have kernels of
// their own, which read whole vectors.
template <class Lift>
cudaError_t LaunchAnyTile(const OperatorParameters& parameters, bool is_signed, const Range& range,
                          const Workspace& workspace, cudaStream_t stream) {
  using Terms = typename Lift::Terms;
  std::uint32_t d = 1;
  while (d * d < range.entries) ++d;
  const auto launch = [&]<class Tile>() {
    return LaunchTile<Tile, Lift>(parameters, is_signed, range, d, workspace, stream);
  };
  if (d < 4) return launch.template operator()<MatrixTile<Terms, 1, 1, 4, 4, 0>>();
  if (d == 4) return launch.template operator()<MatrixTile<Terms, 1, 1, 4, 4, 4>>();
  if (d < 8) return launch.template operator()<MatrixTile<Terms, 2, 2, 4, 4, 0>>();
  if (d == 8) return launch.template operator()<MatrixTile<Terms, 2, 2, 4, 4, 8>>();
  if (d < 16) return launch.template operator()<MatrixTile<Terms, 2, 4, 8, 4, 0>>();
  if (d == 16) return launch.template operator()<MatrixTile<Terms, 2, 4, 8, 4, 16>>();
  if (d <= 24) return launch.template operator()<MatrixTile<Terms, 4, 4, 6, 6, 0>>();
  if (d < 32) return launch.template operator()<MatrixTile<Terms, 4, 8, 8, 4, 0>>();
  return launch.template operator()<MatrixTile<Terms, 4, 8, 8, 4, 32>>();
}

// Square matrices of 3 rows and more.
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
