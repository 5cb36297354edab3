// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a warp reduces leaves of a commutative scalar operator.
#pragma once

#include <cstdint>

#include "kernels/cuda/geometry.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/leaf/lane_leaf.cuh"
#include "kernels/cuda/tuning.h"
#include "kernels/cuda/vectors.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/geometry.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda {

template <ScalarOperator Op>
class ScalarLeaves {
 public:
  using Operation = Op;
  using T = typename Op::Element;
  using LeafState = typename Op::LeafState;
  using State = typename Op::State;
  static constexpr LeavesTuning kTuning = ScalarLeavesTuning(sizeof(LeafState));
  static constexpr int kWarps = kTuning.warps;
  static constexpr int kThreads = kWarps * kLanes;
  static constexpr int kBlocksPerMultiprocessor = kTuning.blocks;
  static constexpr std::uint32_t kLeafElements = kLeafBytes / sizeof(T);
  static constexpr std::uint32_t kLargestLevel = kTuning.largest_level;

  __device__ ScalarLeaves(const Op& op, const Range& range)
      : op_(op), range_(range), lane_(threadIdx.x % kLanes) {}

  // Begins to load the leaf with which the next FoldRun starts.
  __device__ __forceinline__ void Prefetch(std::uint64_t leaf) { Load(leaf); }

  // Begins to load a leaf that is folded alone, and may be short if it is filled up.
  __device__ __forceinline__ void PrefetchEdge(std::uint64_t leaf) {
    const std::uint64_t count = CountFrom(leaf);
    if (!kFillsUp || count >= kLeafElements) {
      Load(leaf);
    } else {
      LoadShort(leaf, static_cast<std::uint32_t>(count));
    }
  }

  // Returns, in every lane, the state of the aligned, full leaves [first, first + 2^level), of which the
  // first has been prefetched. Ends by prefetching leaf `next`, if it is one, so that loads go on while the
  // block combines.
  //
  // The canonical order folds the 32 lanes of each leaf at distances 16, 8, 4, 2, 1. Done leaf by leaf that
  // is five shuffles a leaf. Here two leaves go through the distance 16 at once: the lower half of the warp
  // keeps the first leaf and the upper half the second, each sending what it does not keep. What remains is
  // one register for two leaves, which pairs in the same way with that of the next two at distance 8, and so
  // on: one shuffle a leaf, and the same combinations.
  __device__ __forceinline__ State FoldRun(std::uint64_t first, std::uint32_t level, std::uint64_t next) {
    LeafState waiting[kLargestLevel];  // waiting[l]: 2^l leaves that have no partner yet
    LeafState folded{};
    const std::uint32_t last = (1u << level) - 1;
    const bool prefetches = next != kNoLeaf;
    for (std::uint32_t i = 0; i <= last; ++i) {
      // This lane's part of the leaf, in the operator's own way if it has one.
      folded = LaneLeaf<Op>::Fold(op_, vectors_, lane_ * kVector, [this] { return FoldPlainly(); });
      Load(i < last ? first + i + 1 : next, i < last || prefetches);
      bool pairs = true;  // no break below: the loop must unroll for waiting to stay in registers
#pragma unroll
      for (std::uint32_t l = 0; l < kLargestLevel; ++l) {
        if (!pairs || l >= level) continue;
        pairs = (i >> l) % 2 == 1;
        if (pairs) {
          folded = Exchange(waiting[l], folded, kLanes / 2 >> l);
        } else {
          waiting[l] = folded;
        }
      }
    }
    folded = FoldLanes(folded, kLanes / 2 >> level);
    // Bit l of a leaf's number is now bit 4 - l of the lanes that hold it.
    const std::uint64_t leaf = first + (__brev(lane_) >> 27) % (1u << level);
    State state = op_.Widen(folded, leaf * kLeafElements);
    for (std::uint32_t l = 0; l < level; ++l) state = op_.Combine(state, ShuffleXor(state, kLanes / 2 >> l));
    return state;
  }

  // Whether a leaf is so short that FoldShort must fold it.
  __device__ __forceinline__ bool IsShort(std::uint64_t leaf) const {
    return !kFillsUp && CountFrom(leaf) < kLeafElements;
  }
  // The state of such a leaf, in every lane.
  __device__ __forceinline__ State FoldShort(std::uint64_t leaf) {
    const auto count = static_cast<std::uint32_t>(CountFrom(leaf));
    LoadShort(leaf, count);
    return op_.Widen(FoldLanes(FoldShortLane(count), kLanes / 2), leaf * kLeafElements);
  }

 private:
  static constexpr std::uint32_t kVector = kVectorBytes / sizeof(T);
  static constexpr std::uint32_t kRowElements = kRowBytes / sizeof(T);
  // Whether a short leaf is filled up with elements that change nothing.
  static constexpr bool kFillsUp = HasNeutralElement<Op>;
  // As many neutral elements as fit 64 bits, side by side: the element times 0x0101..., 0x00010001..., ...;
  // zeros if the operator has none.
  static constexpr std::uint64_t Filler() {
    if constexpr (kFillsUp) return Op::kNeutral * (~std::uint64_t{0} / static_cast<Bits<T>>(~Bits<T>{0}));
    return 0;
  }

  // How many of the range's elements there are from a leaf's first one on.
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
    T elements[kVector];  // of the vector that is there in part
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

  static constexpr std::uint32_t kLaneElements = kLeafRows * kVector;

  // Folds this lane's columns of the loaded leaf, then their states pairwise. Small states: all columns at
  // once, row by row, for there is much to do side by side. Others: column by column, for registers.
  template <class S, class Lift, class Combine>
  __device__ __forceinline__ S Sweep(const Lift& lift, const Combine& combine) const {
    if constexpr (sizeof(S) * kVector > kMostColumnBytes) {
      return SweepColumns<S, 0, kVector>(lift, combine);
    } else {
      return SweepRows<S>(lift, combine);
    }
  }

  template <class S, class Lift, class Combine>
  __device__ __forceinline__ S SweepRows(const Lift& lift, const Combine& combine) const {
    // Where the order does not matter, no fewer than four: one alone waits for each of its combinations.
    constexpr std::uint32_t kRows = AnyOrder<Op> && kVector < 4 ? 4 / kVector : 1;
    S columns[kRows * kVector];
#pragma unroll
    for (int row = 0; row < kLeafRows; ++row) {
#pragma unroll
      for (std::uint32_t c = 0; c < kVector; ++c) {
        const S lifted = lift(ElementOf<T>(vectors_[row], c), row * kRowElements + lane_ * kVector + c);
        S& column = columns[row % kRows * kVector + c];
        column = row < static_cast<int>(kRows) ? lifted : combine(column, lifted);
      }
    }
    return FoldColumns(columns, combine);
  }

  // Columns [kBegin, kEnd).
  template <class S, std::uint32_t kBegin, std::uint32_t kEnd, class Lift, class Combine>
  __device__ __forceinline__ S SweepColumns(const Lift& lift, const Combine& combine) const {
    if constexpr (kEnd - kBegin > 1) {
      constexpr std::uint32_t kMiddle = (kBegin + kEnd) / 2;
      const S left = SweepColumns<S, kBegin, kMiddle>(lift, combine);
      return combine(left, SweepColumns<S, kMiddle, kEnd>(lift, combine));
    } else {
      S state;
#pragma unroll
      for (int row = 0; row < kLeafRows; ++row) {
        const S lifted =
            lift(ElementOf<T>(vectors_[row], kBegin), row * kRowElements + lane_ * kVector + kBegin);
        state = row == 0 ? lifted : combine(state, lifted);
      }
      return state;
    }
  }

  // Folds this lane's columns of a leaf of which only `count` elements exist, column by column in a loop.
  // This code runs once a launch, and would be most of the kernel if it were unrolled.
  template <class S, class Lift, class Combine>
  __device__ __forceinline__ S SweepShort(std::uint32_t count, const S& identity, const Lift& lift,
                                          const Combine& combine) const {
    constexpr std::uint32_t kLevels = Log2(kVector);
    S waiting[kLevels];  // waiting[l]: 2^l columns that have no partner yet
    S folded;
#pragma unroll 1
    for (std::uint32_t c = 0; c < kVector; ++c) {
      folded = identity;
#pragma unroll
      for (int row = 0; row < kLeafRows; ++row) {
        const std::uint32_t i = row * kRowElements + lane_ * kVector + c;
        if (i < count) folded = combine(folded, lift(ElementAt<T>(vectors_[row], c), i));
      }
      bool pairs = true;  // no break below: the loop must unroll for waiting to stay in registers
#pragma unroll
      for (std::uint32_t l = 0; l < kLevels; ++l) {
        if (!pairs) continue;
        pairs = (c >> l) % 2 == 1;
        if (pairs) {
          folded = combine(waiting[l], folded);
        } else {
          waiting[l] = folded;
        }
      }
    }
    return folded;
  }

  // The way that every operator can go.
  __device__ __forceinline__ LeafState FoldPlainly() {
    if constexpr (SweepsRangeApart<Op>) {
      // The range is a sweep of its own, done before the others: interleaved, they would need more registers
      // than there are.
      auto range = FoldRange(typename Op::Range());
      Pin(range);
      LeafState folded = SweepLane();
      folded.range = range;  // the compiler drops what led to the other one
      return folded;
    } else {
      return SweepLane();
    }
  }

  __device__ __forceinline__ LeafState SweepLane() {
    if constexpr (TwoSweeps<Op>) {
      return SweepLaneTwice();
    } else {
      return Sweep<LeafState>([this](T x, std::uint32_t i) { return op_.Lift(x, i); },
                              [this](const LeafState& a, const LeafState& b) { return op_.Combine(a, b); });
    }
  }

  template <class MinmaxOp>
  __device__ __forceinline__ typename MinmaxOp::State FoldRange(const MinmaxOp& range) const {
    using S = typename MinmaxOp::State;
    return LaneLeaf<MinmaxOp>::Fold(range, vectors_, lane_ * kVector, [&] {
      return Sweep<S>([&](T x, std::uint32_t i) { return range.Lift(x, i); },
                      [&](const S& a, const S& b) { return range.Combine(a, b); });
    });
  }

  __device__ __forceinline__ LeafState SweepLaneTwice() {
    const auto first = Sweep<typename Op::First>(LiftFirst(), CombineFirst());
    return SweepAgain(first, kLaneElements, [this](auto identity, const auto& lift, const auto& combine) {
      return Sweep<decltype(identity)>(lift, combine);
    });
  }

  __device__ __forceinline__ LeafState FoldShortLane(std::uint32_t count) {
    if constexpr (TwoSweeps<Op>) {
      const std::uint32_t present = PresentInLane(count);
      if (present == 0) return op_.LeafIdentity();
      const auto first = SweepShort(count, op_.FirstIdentity(), LiftFirst(), CombineFirst());
      return SweepAgain(first, present, [=, this](auto identity, const auto& lift, const auto& combine) {
        return SweepShort(count, identity, lift, combine);
      });
    } else {
      return SweepShort(
          count, op_.LeafIdentity(), [this](T x, std::uint32_t i) { return op_.Lift(x, i); },
          [this](const LeafState& a, const LeafState& b) { return op_.Combine(a, b); });
    }
  }

  // How many of a leaf's first `count` elements are in this lane's vectors.
  __device__ __forceinline__ std::uint32_t PresentInLane(std::uint32_t count) const {
    const std::uint32_t rest = count % kRowElements;
    const std::uint32_t before = lane_ * kVector;
    return count / kRowElements * kVector + (rest <= before ? 0 : min(rest - before, kVector));
  }

  __device__ __forceinline__ auto LiftFirst() const {
    return [this](T x, std::uint32_t) { return op_.LiftFirst(x); };
  }
  __device__ __forceinline__ auto CombineFirst() const {
    return [this](const auto& a, const auto& b) { return op_.CombineFirst(a, b); };
  }

  // ptxas keeps elements that it has converted for one sweep until the other, in more registers than there
  // are; those of 32 bits it also converts before it knows the center. So it must not know that the elements
  // are the same.
  __device__ __forceinline__ void ForgetConversions(double center) {
    if constexpr (sizeof(T) == 4 || HalfElement<T>) {
      std::uint32_t zero = OpaqueZero();
      if constexpr (sizeof(T) == 4) zero &= static_cast<std::uint32_t>(__double2hiint(center));
#pragma unroll
      for (uint4& v : vectors_) v = {v.x ^ zero, v.y ^ zero, v.z ^ zero, v.w ^ zero};
    }
  }

  // The second sweep, over `present` elements.
  template <class First, class SweepOnce>
  __device__ __forceinline__ LeafState SweepAgain(const First& first, std::uint32_t present,
                                                  const SweepOnce& sweep) {
    using Second = typename Op::Second;
    const double center = op_.Center(first, present);
    ForgetConversions(center);
    const Second second = sweep(
        Second{}, [=, this](T x, std::uint32_t) { return op_.LiftSecond(x, center); },
        [this](const Second& a, const Second& b) { return op_.CombineSecond(a, b); });
    return op_.Join(first, center, second, present);
  }

  // Folds lanes at `distance`, half of that, ... 1.
  __device__ __forceinline__ LeafState FoldLanes(LeafState state, int distance) const {
    for (; distance > 0; distance /= 2) state = op_.Combine(state, ShuffleXor(state, distance));
    return state;
  }

  template <class S, std::uint32_t kColumns, class Combine>
  __device__ __forceinline__ S FoldColumns(S (&columns)[kColumns], const Combine& combine) const {
#pragma unroll
    for (std::uint32_t width = 1; width < kColumns; width *= 2) {
#pragma unroll
      for (std::uint32_t c = 0; c < kColumns; c += 2 * width)
        columns[c] = combine(columns[c], columns[c + width]);
    }
    return columns[0];
  }

  // Combines lanes l and l + distance of two runs at once: of `first` where the lane's bit `distance` is
  // clear, of `second` where it is set.
  __device__ __forceinline__ LeafState Exchange(const LeafState& first, const LeafState& second,
                                                int distance) const {
    const bool upper = (lane_ & distance) != 0;
    const LeafState kept = Choose(upper, second, first);
    const LeafState sent = Choose(upper, first, second);
    return op_.Combine(kept, ShuffleXor(sent, distance));
  }

  // These are copies, because what kernels reach through a pointer ends up in memory.
  const Op op_;
  const Range range_;
  const std::uint32_t lane_;
  uint4 vectors_[kLeafRows];  // this lane's part of the leaf loaded last
};

}  // namespace warpfold::kernels::cuda
