// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The textbook's row of one family. cmake generates one source file per family that instantiates it
// (row.cu.in).
#pragma once

#include "kernels/cuda/textbook/block_of_warps.cuh"
#include "kernels/cuda/textbook/cooperative_grid.cuh"
#include "kernels/cuda/textbook/first_add_on_load.cuh"
#include "kernels/cuda/textbook/grid_stride.cuh"
#include "kernels/cuda/textbook/interleaved_modulo.cuh"
#include "kernels/cuda/textbook/interleaved_strided.cuh"
#include "kernels/cuda/textbook/last_block.cuh"
#include "kernels/cuda/textbook/last_block_ordered.cuh"
#include "kernels/cuda/textbook/launch.h"
#include "kernels/cuda/textbook/sequential_addressing.cuh"
#include "kernels/cuda/textbook/single_block.cuh"
#include "kernels/cuda/textbook/single_block_ordered.cuh"
#include "kernels/cuda/textbook/two_launch.cuh"
#include "kernels/cuda/textbook/unrolled_warp.cuh"
#include "kernels/cuda/textbook/warp_first.cuh"
#include "kernels/cuda/textbook/warp_shared.cuh"
#include "kernels/cuda/textbook/warp_shared_ordered.cuh"
#include "kernels/cuda/textbook/warp_shuffle.cuh"
#include "kernels/operators/make_row.h"

namespace warpfold::kernels::cuda::textbook {

template <Operator Op>
constexpr Launchers MakeLaunchers() {
  Launchers launchers{};
  const auto set = [&](Algorithm algorithm, LaunchFunction launch) {
    launchers[static_cast<int>(algorithm)] = launch;
  };
  set(Algorithm::kSingleBlockOrdered, LaunchSingleBlockOrdered<Op>);
  set(Algorithm::kLastBlockOrdered, LaunchLastBlockOrdered<Op>);
  set(Algorithm::kWarpSharedOrdered, LaunchWarpSharedOrdered<Op>);
  set(Algorithm::kWarpShuffle, LaunchWarpShuffle<Op>);
  set(Algorithm::kInterleavedModulo, LaunchInterleavedModulo<Op>);
  set(Algorithm::kInterleavedStrided, LaunchInterleavedStrided<Op>);
  if constexpr (Op::kCommutative) {
    set(Algorithm::kSingleBlock, LaunchSingleBlock<Op>);
    set(Algorithm::kTwoLaunch, LaunchTwoLaunch<Op>);
    set(Algorithm::kLastBlock, LaunchLastBlock<Op>);
    set(Algorithm::kWarpShared, LaunchWarpShared<Op>);
    set(Algorithm::kBlockOfWarps, LaunchBlockOfWarps<Op>);
    set(Algorithm::kSequentialAddressing, LaunchSequentialAddressing<Op>);
    set(Algorithm::kFirstAddOnLoad, LaunchFirstAddOnLoad<Op>);
    set(Algorithm::kUnrolledWarp, LaunchUnrolledWarp<Op>);
    set(Algorithm::kGridStride, LaunchGridStride<Op>);
    set(Algorithm::kWarpFirst, LaunchWarpFirst<Op>);
    set(Algorithm::kCooperativeGrid, LaunchCooperativeGrid<Op>);
  }
  return launchers;
}

template <Operator Op>
inline constexpr Launchers kLaunchersOf = MakeLaunchers<Op>();

// What Reduction::Create refuses is not built.
template <class Op, class Scalar>
constexpr const Launchers* LaunchersOf() {
  if constexpr (sizeof(Scalar) < kMinTextbookScalarBytes ||
                sizeof(typename Op::State) > kMaxTextbookStateBytes) {
    return nullptr;
  } else {
    return &kLaunchersOf<Op>;
  }
}

// An entry of the operator's elements, or the element if it is a scalar.
template <class Element>
struct ScalarOf {
  using type = Element;
};
template <class Element>
requires requires(Element element) { element.entries[0]; }
struct ScalarOf<Element> {
  using type = std::remove_reference_t<decltype(Element().entries[0])>;
};

struct Loops {
  template <class Op>
  static constexpr const Launchers* kScalars = LaunchersOf<Op, typename Op::Element>();
  template <class Op>
  static constexpr const Launchers* kExact = kScalars<Op>;
  template <class Op>
  static constexpr const Launchers* kEntrywise = nullptr;
  template <class Op>
  static constexpr const Launchers* kOrdered =
      LaunchersOf<Op, typename ScalarOf<typename Op::Element>::type>();
  template <class Op>
  static constexpr const Launchers* kLarge = nullptr;
};

template <class Family>
const Row& RowOf() {
  static constexpr Row kRow = MakeRow<Row, Loops>(Family());
  return kRow;
}

}  // namespace warpfold::kernels::cuda::textbook
