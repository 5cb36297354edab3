// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a warp reduces leaves of a commutative scalar operator.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/leaf/lane_fold.cuh"
#include "kernels/cuda/pair_up.cuh"
#include "kernels/cuda/tuning.h"
#include "kernels/cuda/units.cuh"
#include "kernels/cuda/vectors.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/geometry.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda {

template <ScalarOperator Op>
class WarpLeaves {
 public:
  using Operation = Op;
  using T = typename Op::Element;
  using LeafState = typename Op::LeafState;
  using State = typename Op::State;
  static constexpr LeavesTuning kTuning = WarpLeavesTuning(sizeof(LeafState));
  static constexpr int kWarps = kTuning.warps;
  static constexpr int kThreads = kWarps * kLanes;
  static constexpr int kBlocksPerMultiprocessor = kTuning.blocks;
  static constexpr std::uint32_t kLeafElements = kLeafBytes / sizeof(T);
  static constexpr std::uint32_t kLargestLevel = kTuning.largest_level;
  // Short leaves need separate code only if no element is neutral. Those of other operators are filled up
  // with neutral elements.
  static constexpr bool kHasShort = !HasNeutralElement<Op>;

  __device__ WarpLeaves(const Op& op, const Range& range)
      : op_(op), range_(range), lane_(threadIdx.x % kLanes) {}

  // Begins to load the leaf with which the next FoldRun starts.
  __device__ __forceinline__ void Prefetch(std::uint64_t leaf) { Load(leaf); }

  // Begins to load a leaf that is folded alone, and may be short if it is filled up.
  __device__ __forceinline__ void PrefetchEdge(std::uint64_t leaf) {
    const std::uint64_t count = CountFrom(leaf);
    if (kHasShort || count >= kLeafElements) {
      Load(leaf);
    } else {
      LoadShort(leaf, static_cast<std::uint32_t>(count));
    }
  }

  // Returns, in every lane, the state of the aligned leaves [first, first + 2^level), full or filled up, the
  // first of which has been prefetched. Ends by prefetching leaf `next`, if there is such a leaf, so that
  // loads continue while the block combines.
  //
  // The canonical order folds the 32 lanes of each leaf at distances 16, 8, 4, 2, 1. Done leaf by leaf, that
  // takes five shuffles per leaf. Here two leaves are folded at distance 16 at once: the lower half of the
  // warp keeps the first leaf and the upper half the second, each sending what it does not keep. What remains
  // is one register for two leaves, which is paired in the same way with that of the next two at distance 8,
  // and so on: one shuffle per leaf, and the same combinations.
  __device__ __forceinline__ State FoldRun(std::uint64_t first, std::uint32_t level, std::uint64_t next) {
    LeafState waiting[kLargestLevel];
    LeafState folded{};
    const std::uint32_t last = (1u << level) - 1;
    const bool prefetches = next != kNoLeaf;
    for (std::uint32_t i = 0; i <= last; ++i) {
      folded = LaneFold<Op>::Fold(op_, vectors_, lane_ * kVector);
      Load(i < last ? first + i + 1 : next, i < last || prefetches);
      folded = PairUp(folded, i, level, waiting,
                      [this](const LeafState& left, const LeafState& right, std::uint32_t l) {
                        return Exchange(left, right, kLanes / 2 >> l);
                      });
    }
    folded = FoldByShuffles<true>(folded, kLanes / 2 >> level);
    // Bit l of a leaf's number is now bit 4 - l of the lanes that hold it.
    const std::uint64_t leaf = first + (__brev(lane_) >> 27) % (1u << level);
    State state = op_.Widen(folded, leaf * kLeafElements);
    for (std::uint32_t l = 0; l < level; ++l) {
      state = CombineEqualStates(op_, state, ShuffleXor(state, kLanes / 2 >> l));
    }
    return state;
  }

  __device__ __forceinline__ bool IsShort(std::uint64_t leaf) const {
    return CountFrom(leaf) < kLeafElements;
  }
  // The state of a short leaf, in every lane.
  __device__ __forceinline__ State FoldShort(std::uint64_t leaf) {
    const auto count = static_cast<std::uint32_t>(CountFrom(leaf));
    LoadShort(leaf, count);
    const LeafState folded = PlainLaneFold<Op>::FoldShort(op_, vectors_, lane_ * kVector, count);
    return op_.Widen(FoldByShuffles<false>(folded, kLanes / 2), leaf * kLeafElements);
  }

 private:
  static constexpr std::uint32_t kVector = kVectorBytes / sizeof(T);
  // Leaves that were filled up do not all count equally many elements.
  static_assert(!(HasNeutralElement<Op> && CombinesEqual<Op>));
  // As many neutral elements as fit in 64 bits, side by side: the element times 0x0101..., 0x00010001...,
  // ...; zeros if the operator has none.
  static constexpr std::uint64_t Filler() {
    if constexpr (HasNeutralElement<Op>)
      return Op::kNeutral * (~std::uint64_t{0} / static_cast<Bits<T>>(~Bits<T>{0}));
    return 0;
  }

  // How many of the range's elements there are from a leaf's first element on.
  __device__ __forceinline__ std::uint64_t CountFrom(std::uint64_t leaf) const {
    return range_.element_count - (leaf - range_.first_leaf) * kLeafElements;
  }

  // Loads this lane's vector of each row. All loads are independent: a warp has 4 KiB in flight.
  __device__ __forceinline__ void Load(std::uint64_t leaf, bool exists = true) {
    const auto* rows =
        reinterpret_cast<const uint4*>(range_.data + (leaf - range_.first_leaf) * kLeafBytes) + lane_;
#pragma unroll
    for (int row = 0; row < kLeafRows; ++row) vectors_[row] = LoadStreamed(rows + row * kLanes, exists);
  }

  // Loads a leaf of which only `count` elements exist, with fillers in the place of the others. All loads are
  // independent here, too: one after the other they would take longer than the rest of a small reduction.
  __device__ __forceinline__ void LoadShort(std::uint64_t leaf, std::uint32_t count) {
    const std::byte* const data = range_.data + (leaf - range_.first_leaf) * kLeafBytes;
    const std::uint32_t full = count / kVector;  // vectors
    constexpr auto kLow = static_cast<std::uint32_t>(Filler());
    constexpr auto kHigh = static_cast<std::uint32_t>(Filler() >> 32);
#pragma unroll
    for (int row = 0; row < kLeafRows; ++row) {
      const std::uint32_t vector = row * kLanes + lane_;
      vectors_[row] = {kLow, kHigh, kLow, kHigh};
      if (vector < full) vectors_[row] = reinterpret_cast<const uint4*>(data)[vector];
    }
    if (count % kVector == 0) return;
    T elements[kVector];  // of the vector that exists only in part
#pragma unroll
    for (std::uint32_t c = 0; c < kVector; ++c) {
      const std::uint32_t i = full * kVector + c;
      elements[c] = BitCast<T>(static_cast<Bits<T>>(Filler()));
      if (i < count) elements[c] = reinterpret_cast<const T*>(data)[i];
    }
    uint4 part;
    std::memcpy(&part, elements, sizeof part);
#pragma unroll
    for (int row = 0; row < kLeafRows; ++row)
      vectors_[row] = Choose(row * kLanes + lane_ == full, part, vectors_[row]);
  }

  // Folds lanes at `distance`, half of that, ..., 1. kFull: the lanes' states count equally many elements.
  template <bool kFull>
  __device__ __forceinline__ LeafState FoldByShuffles(LeafState state, int distance) const {
    for (; distance > 0; distance /= 2) {
      const LeafState other = ShuffleXor(state, distance);
      state = kFull ? CombineEqualStates(op_, state, other) : op_.Combine(state, other);
    }
    return state;
  }

  // Combines lanes l and l + distance of two states of equally many leaves: those of `first` if the lane's
  // bit `distance` is clear, and of `second` if it is set.
  __device__ __forceinline__ LeafState Exchange(const LeafState& first, const LeafState& second,
                                                int distance) const {
    const bool upper = (lane_ & distance) != 0;
    const LeafState kept = Choose(upper, second, first);
    const LeafState sent = Choose(upper, first, second);
    return CombineEqualStates(op_, kept, ShuffleXor(sent, distance));
  }

  // These are copies, because objects that kernels reach through a pointer end up in memory.
  const Op op_;
  const Range range_;
  const std::uint32_t lane_;
  uint4 vectors_[kLeafRows];  // this lane's part of the leaf loaded last
};

}  // namespace warpfold::kernels::cuda
