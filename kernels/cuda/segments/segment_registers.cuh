// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a warp folds segments of whole vectors in its registers, as warp_leaves.cuh folds ranges. It loads
// eight rows at a time, a *batch*, which has places for one, two or four leaves: these are the segments of a
// tile, or the leaves of a run. A batch's loads are issued when the previous batch has been folded.
//
// Registers are scarce, so a warp keeps a cursor to its position, and computes the rest again when it ends a
// step.
#pragma once

#include <cstdint>

#include "kernels/cuda/segments/lane_rows.cuh"
#include "kernels/cuda/segments/segment_copy.cuh"
#include "kernels/cuda/segments/segment_leaf.cuh"
#include "kernels/cuda/segments/segment_plan.h"
#include "kernels/cuda/segments/segment_runs.cuh"
#include "kernels/cuda/segments/segment_steps.cuh"
#include "kernels/cuda/tuning.h"
#include "kernels/cuda/vectors.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/geometry.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda {

// Whether an operator's kernel folds whole vectors of 32 and 64 bits this way.
template <Operator Op>
inline constexpr bool FoldsInRegisters = Op::kCommutative && !AccumulatingOperator<Op>;

template <ScalarOperator Op>
class RegisterSegmentWarp {
 public:
  using T = typename Op::Element;
  using LeafState = typename Op::LeafState;
  using State = typename Op::State;

  // Shared memory of this warp: `states` for what TakeStep keeps, `waiting` for kPlacesLevel * kLanes states.
  __device__ RegisterSegmentWarp(const Op& op, const SegmentPlan& plan, const SegmentWork& work,
                                 State* states, LeafState* waiting)
      : op_(op),
        plan_(plan),
        work_(work),
        steps_(plan),
        states_(states),
        waiting_(waiting + threadIdx.x % kLanes),
        lane_(threadIdx.x % kLanes),
        rows_(op, threadIdx.x % kLanes) {}

  __device__ __forceinline__ void Run() {
    SegmentCursor cursor = steps_.Begin();
    Places places;
    if (steps_.Exists(cursor)) places = PlacesOf(steps_.At(cursor));
    Load(places, 0, steps_.Exists(cursor));
    LeafState waiting[kWaits];
    std::uint32_t batch = 0;
#pragma unroll 1
    while (steps_.Exists(cursor)) {
      LeafState folded = FoldBatch(places, batch);
      const std::uint32_t level = places.level;
      const std::uint32_t batch_level = places.batch_level;
      const std::uint32_t folded_batch = batch;
      const SegmentCursor current = cursor;
      const bool ends = (++batch << batch_level) >> level != 0;
      if (ends) {
        batch = 0;
        steps_.Advance(steps_.At(current), cursor);
        if (steps_.Exists(cursor)) places = PlacesOf(steps_.At(cursor));
      }
      Load(places, batch, steps_.Exists(cursor));
      folded = Take(folded, level - batch_level, kLanes / 2 >> batch_level, folded_batch, waiting);
      if (ends) FinishStep(steps_.At(current), level, folded);
    }
  }

 private:
  static constexpr std::uint32_t kVector = kVectorBytes / sizeof(T);
  static constexpr std::uint32_t kLeafElements = kLeafBytes / sizeof(T);
  static constexpr std::uint32_t kLeafVectors = kLeafBytes / kVectorBytes;

  // The leaves of a step: 2^level places, some of which may be empty, 2^batch_level of them in each batch.
  // All lanes have the same values, except for `begin` and `vectors`.
  struct Places {
    const uint4* base = nullptr;
    // How far after the base the leaf of place number `lane` begins, and its length, both in vectors.
    std::uint32_t begin = 0;
    std::uint32_t vectors = 0;
    std::uint32_t level = 0;
    std::uint32_t batch_level = 0;
  };

  __device__ __forceinline__ Places PlacesOf(const SegmentStep& step) const {
    Places places;
    places.base = reinterpret_cast<const uint4*>(plan_.data) + step.begin / kVector;
    std::uint32_t count = step.item.count;
    if (step.is_tile()) {
      const std::uint64_t segment = step.item.segment + min(lane_, count);
      const std::uint64_t begin = steps_.Offset(segment) - step.begin;
      const std::uint64_t end = steps_.Offset(segment + (lane_ < count ? 1 : 0)) - step.begin;
      places.begin = static_cast<std::uint32_t>(begin) / kVector;
      places.vectors = static_cast<std::uint32_t>(end) / kVector - places.begin;
      places.batch_level = LogSegmentsInRows(MaxOfWarp(places.vectors));
    } else {
      const std::uint32_t vectors = static_cast<std::uint32_t>(step.end - step.begin) / kVector;
      places.begin = lane_ * kLeafVectors;
      places.vectors = vectors > places.begin ? min(vectors - places.begin, kLeafVectors) : 0;
      count = (vectors + kLeafVectors - 1) / kLeafVectors;
    }
    places.level = max(places.batch_level, count <= 1 ? 0 : 32 - __clz(count - 1));
    return places;
  }

  // Begins to load a batch, if it exists.
  __device__ __forceinline__ void Load(const Places& places, std::uint32_t batch, bool exists) {
    switch (places.batch_level) {
      case 0:
        return LoadBatch<0>(places, batch, exists);
      case 1:
        return LoadBatch<1>(places, batch, exists);
      default:
        return LoadBatch<2>(places, batch, exists);
    }
  }
  template <int kBatchLevel>
  __device__ __forceinline__ void LoadBatch(const Places& places, std::uint32_t batch, bool exists) {
    constexpr int kRows = kLeafRows >> kBatchLevel;
    const std::uint32_t first = batch << kBatchLevel;
#pragma unroll
    for (int place = 0; place < 1 << kBatchLevel; ++place) {
      const uint4* const leaf = places.base + __shfl_sync(kFullWarp, places.begin, first + place) + lane_;
      const std::uint32_t vectors = exists ? __shfl_sync(kFullWarp, places.vectors, first + place) : 0;
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        vectors_[place * kRows + row] = LoadStreamed(leaf + row * kLanes, row * kLanes + lane_ < vectors);
      }
    }
  }

  // Waiting states; number l is that of 2^l batches without a partner. They are in registers, or in shared
  // memory if there are not enough registers.
  static constexpr bool kWaitsInMemory = sizeof(LeafState) > kMaxWaitingBytes;
  static constexpr std::uint32_t kWaits = kWaitsInMemory ? 1 : kPlacesLevel;

  // Adds a batch's state to those of its step. They are paired like those of leaves in FoldRun
  // (warp_leaves.cuh), each pair at half the distance of the pair before.
  __device__ __forceinline__ LeafState Take(LeafState folded, std::uint32_t levels, int distance,
                                            std::uint32_t batch, LeafState (&waiting)[kWaits]) const {
    bool pairs = true;  // no break below: the loop must unroll for waiting to stay in registers
#pragma unroll
    for (std::uint32_t l = 0; l < kPlacesLevel; ++l) {
      if (!pairs || l >= levels) continue;
      pairs = (batch >> l) % 2 == 1;
      LeafState& partner = kWaitsInMemory ? waiting_[l * kLanes] : waiting[kWaitsInMemory ? 0 : l];
      if (pairs) {
        folded = Exchange(partner, folded, distance >> l);
      } else {
        partner = folded;
      }
    }
    return folded;
  }

  __device__ __forceinline__ LeafState FoldBatch(const Places& places, std::uint32_t batch) {
    switch (places.batch_level) {
      case 0:
        return FoldBetween<0, 0, 1>(places, batch);
      case 1:
        return FoldBetween<1, 0, 2>(places, batch << 1);
      default:
        return FoldBetween<2, 0, 4>(places, batch << 2);
    }
  }
  // Places [kBegin, kEnd) of the batch whose first place is number `first`.
  template <int kBatchLevel, int kBegin, int kEnd>
  __device__ __forceinline__ LeafState FoldBetween(const Places& places, std::uint32_t first) {
    if constexpr (kEnd - kBegin == 1) {
      constexpr int kRows = kLeafRows >> kBatchLevel;
      const std::uint32_t vectors = __shfl_sync(kFullWarp, places.vectors, first + kBegin);
      return rows_.template Fold<kBegin * kRows, kRows>(vectors_, (vectors + kLanes - 1 - lane_) / kLanes);
    } else {
      constexpr int kMiddle = (kBegin + kEnd) / 2;
      const LeafState left = FoldBetween<kBatchLevel, kBegin, kMiddle>(places, first);
      const LeafState right = FoldBetween<kBatchLevel, kMiddle, kEnd>(places, first);
      return Exchange(left, right, kLanes / (kEnd - kBegin));
    }
  }

  // Combines lanes l and l + distance of two places at once: those of `first` if the lane's bit `distance` is
  // clear, and of `second` if it is set.
  __device__ __forceinline__ LeafState Exchange(const LeafState& first, const LeafState& second,
                                                int distance) const {
    const bool upper = (lane_ & distance) != 0;
    const LeafState kept = Choose(upper, second, first);
    const LeafState sent = Choose(upper, first, second);
    return op_.Combine(kept, ShuffleXor(sent, distance));
  }

  // Combines the lanes that Take has left separate. Each place's state is then complete, in at least one
  // lane.
  __device__ __forceinline__ void FinishStep(const SegmentStep& step, std::uint32_t level,
                                             LeafState folded) const {
#pragma unroll 1
    for (int distance = kLanes / 2 >> level; distance > 0; distance /= 2) {
      folded = op_.Combine(folded, ShuffleXor(folded, distance));
    }
    const std::uint32_t place = (__brev(lane_) >> 27) % (1u << level);  // whose state this lane has
    const State state = op_.Widen(folded, step.is_tile() ? 0 : step.first + place * kLeafElements);
    if (!step.is_tile()) return FinishStepOfRun(step, level, state);
    if (place >= step.item.count || lane_ % (kLanes >> level) != 0) return;
    const std::uint64_t segment = step.item.segment + place;
    Finish(state, steps_.Offset(segment + 1) - steps_.Offset(segment), segment);
  }

  // Combines the places of a step, which are adjacent leaves, and adds their state to that of the run.
  __device__ __forceinline__ void FinishStepOfRun(const SegmentStep& step, std::uint32_t level,
                                                  State state) const {
#pragma unroll 1
    for (std::uint32_t l = 0; l < level; ++l) {
      state = op_.Combine(state, ShuffleXor(state, kLanes / 2 >> l));
    }
    if (step.steps > 1) {
      if (lane_ == 0) {
        states_[0] = state;
        TakeStep(op_, step, states_);
        state = states_[0];
      }
      if (!step.ends_item()) return;
    }
    if (FinishRun(op_, step, steps_.Runs(step.length), work_, state) && lane_ == 0) {
      Finish(state, step.length, step.item.segment);
    }
    __syncwarp();
  }

  __device__ __forceinline__ void Finish(const State& state, std::uint64_t count,
                                         std::uint64_t segment) const {
    if (!FinishSegment(op_, state, count, segment, work_.out)) *work_.has_errors = 1;
  }

  const Op op_;
  const SegmentPlan plan_;
  const SegmentWork work_;
  const SegmentSteps steps_;
  State* const states_;
  LeafState* const waiting_;
  const std::uint32_t lane_;
  const LaneRows<Op> rows_;
  LaneVectors vectors_;  // this lane's part of the batch loaded last
};

// Folds all items, if the elements are those of Op.
template <ScalarOperator Op>
__device__ __forceinline__ void RunInRegisters(const OperatorParameters& parameters, const SegmentPlan& plan,
                                               const SegmentWork& work, std::byte* states,
                                               StepBuffer (&buffers)[2]) {
  using LeafState = typename Op::LeafState;
  static_assert(kPlacesLevel * kLanes * sizeof(LeafState) <= sizeof buffers);
  if (plan.element_shift != Log2(sizeof(typename Op::Element))) return;
  RegisterSegmentWarp<Op>(MakeOperator<Op>(parameters), plan, work,
                          reinterpret_cast<typename Op::State*>(states),
                          reinterpret_cast<LeafState*>(buffers))
      .Run();
}

}  // namespace warpfold::kernels::cuda
