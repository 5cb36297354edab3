// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The textbook's row of one family. CMake generates one source file per family that instantiates it
// (kernels/row.in).
#pragma once

#include "kernels/algorithm.h"
#include "kernels/cuda/textbook/block_of_warps.cuh"
#include "kernels/cuda/textbook/cooperative_grid.cuh"
#include "kernels/cuda/textbook/first_add_on_load.cuh"
#include "kernels/cuda/textbook/grid_stride.cuh"
#include "kernels/cuda/textbook/interleaved_modulo.cuh"
#include "kernels/cuda/textbook/interleaved_strided.cuh"
#include "kernels/cuda/textbook/last_block.cuh"
#include "kernels/cuda/textbook/last_block_ordered.cuh"
#include "kernels/cuda/textbook/launch.h"
#include "kernels/cuda/textbook/natural_sum.h"
#include "kernels/cuda/textbook/sequential_addressing.cuh"
#include "kernels/cuda/textbook/single_block.cuh"
#include "kernels/cuda/textbook/single_block_ordered.cuh"
#include "kernels/cuda/textbook/two_launch.cuh"
#include "kernels/cuda/textbook/unrolled_warp.cuh"
#include "kernels/cuda/textbook/warp_first.cuh"
#include "kernels/cuda/textbook/warp_shared.cuh"
#include "kernels/cuda/textbook/warp_shared_once.cuh"
#include "kernels/cuda/textbook/warp_shared_ordered.cuh"
#include "kernels/cuda/textbook/warp_shared_padded.cuh"
#include "kernels/cuda/textbook/warp_shuffle.cuh"
#include "kernels/operators/rows.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda::textbook {

template <Operator Op>
constexpr Launchers MakeLaunchers() {
  Launchers launchers{};
  const auto set = [&](Algorithm algorithm, SectionLaunchFunction launch) {
    launchers[static_cast<int>(algorithm)] = launch;
  };
  set(Algorithm::kSingleBlockOrdered, LaunchSingleBlockOrdered<Op>);
  set(Algorithm::kLastBlockOrdered, LaunchLastBlockOrdered<Op>);
  set(Algorithm::kWarpShuffle, LaunchWarpShuffle<Op>);
  set(Algorithm::kInterleavedModulo, LaunchInterleavedModulo<Op>);
  set(Algorithm::kInterleavedStrided, LaunchInterleavedStrided<Op>);
  if constexpr (Op::kCommutative) {
    set(Algorithm::kSingleBlock, LaunchSingleBlock<Op>);
    set(Algorithm::kTwoLaunch, LaunchTwoLaunch<Op>);
    set(Algorithm::kLastBlock, LaunchLastBlock<Op>);
    set(Algorithm::kBlockOfWarps, LaunchBlockOfWarps<Op>);
    set(Algorithm::kSequentialAddressing, LaunchSequentialAddressing<Op>);
    set(Algorithm::kFirstAddOnLoad, LaunchFirstAddOnLoad<Op>);
    set(Algorithm::kUnrolledWarp, LaunchUnrolledWarp<Op>);
    set(Algorithm::kGridStride, LaunchGridStride<Op>);
    set(Algorithm::kWarpFirst, LaunchWarpFirst<Op>);
    set(Algorithm::kCooperativeGrid, LaunchCooperativeGrid<Op>);
  }
  if constexpr (!IsTextbookExtremum(Op::kName)) {
    set(Algorithm::kWarpSharedOrdered, LaunchWarpSharedOrdered<Op>);
    set(Algorithm::kWarpSharedPadded, LaunchWarpSharedPadded<Op>);
    if constexpr (Op::kCommutative) {
      set(Algorithm::kWarpShared, LaunchWarpShared<Op>);
      set(Algorithm::kWarpSharedOnce, LaunchWarpSharedOnce<Op>);
    }
  }
  return launchers;
}

template <class Op>
inline constexpr Launchers kLaunchersOf = MakeLaunchers<Op>();
template <>
inline constexpr Launchers kLaunchersOf<void> = {};

template <Operator Op>
inline constexpr LaunchersByOverflow kAllLaunchersOf = {kLaunchersOf<Op>,
                                                        kLaunchersOf<typename NaturalOf<Op>::type>};

// Combinations that ReductionPlan::Create rejects are not built.
struct Functions {
  static constexpr bool Serves(ElementType type, bool ignore_nan) {
    return !ignore_nan && TextbookServesType(type);
  }
  static constexpr bool ServesWhole(ElementType type, int dimension) {
    return dimension == static_cast<int>(kTextbookRows) && TextbookServesType(type);
  }
  template <Operator Op>
  static constexpr const LaunchersByOverflow* kScalars = &kAllLaunchersOf<Op>;
  template <Operator Op>
  static constexpr const LaunchersByOverflow* kOrdered = &kAllLaunchersOf<Op>;
  template <Operator Op>
  static constexpr const LaunchersByOverflow* kEntrywise = nullptr;
  // This is defined although ServesWhole says that there are none: nvcc looks it up all the same.
  template <class Op>
  static constexpr const LaunchersByOverflow* kLarge = nullptr;
};

template <class Family>
const Row& RowOf() {
  static constexpr Row kRow = MakeRow<Row, Functions>(Family());
  return kRow;
}

}  // namespace warpfold::kernels::cuda::textbook
