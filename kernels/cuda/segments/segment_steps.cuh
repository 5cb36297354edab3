// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The steps in which a warp takes the elements of its items: a tile, or 2^step_level leaves of a run. A
// step's bytes lie one after the other.
#pragma once

#include <cstdint>

#include "kernels/cuda/segments/segment_plan.h"

namespace warpfold::kernels::cuda {

// The position of a warp. Items are dealt in rounds, one to each warp. In each round a warp takes the next
// place, so that no warp always gets a segment's short last run.
struct SegmentCursor {
  std::uint64_t round = 0;   // the number of the round's first item
  std::uint32_t turn = 0;    // the warp's place in the round: its item's number is round + turn
  std::uint32_t number = 0;  // of the step within the run
};

struct SegmentStep {
  SegmentItem item;
  std::uint64_t begin = 0;  // the step's elements, counted from the first segment's start
  std::uint64_t end = 0;
  std::uint64_t length = 0;  // elements of the segment, if it is cut into runs
  std::uint64_t first = 0;   // of the step's elements within that segment
  std::uint32_t number = 0;  // within the run
  std::uint32_t steps = 0;   // that the run has

  __device__ bool is_tile() const { return item.count != 0; }
  __device__ bool ends_item() const { return is_tile() || number + 1 == steps; }
};

class SegmentSteps {
 public:
  __device__ explicit SegmentSteps(const SegmentPlan& plan) : plan_(plan) {}

  // Where segment `i` begins; for i = segment_count, where the last one ends.
  __device__ __forceinline__ std::uint64_t Offset(std::uint64_t i) const {
    return plan_.offsets == nullptr ? i * plan_.length : plan_.offsets[i];
  }

  // The position at which this warp begins. All warps of the grid take part.
  __device__ __forceinline__ SegmentCursor Begin() const {
    SegmentCursor cursor;
    cursor.turn = blockIdx.x * (blockDim.x / kLanes) + threadIdx.x / kLanes;
    return cursor;
  }
  __device__ __forceinline__ bool Exists(const SegmentCursor& cursor) const {
    return cursor.round + cursor.turn < plan_.item_count;
  }
  // Moves the cursor to the position after `step`.
  __device__ __forceinline__ void Advance(const SegmentStep& step, SegmentCursor& cursor) const {
    ++cursor.number;
    if (!step.ends_item()) return;
    const std::uint32_t warps = gridDim.x * (blockDim.x / kLanes);
    cursor.round += warps;
    cursor.turn = cursor.turn + 1 == warps ? 0 : cursor.turn + 1;
    cursor.number = 0;
  }

  __device__ __forceinline__ SegmentStep At(const SegmentCursor& cursor) const {
    SegmentStep step;
    step.item = Item(cursor.round + cursor.turn);
    step.begin = Offset(step.item.segment);
    if (step.is_tile()) {
      step.end = Offset(step.item.segment + step.item.count);
      return step;
    }
    step.length = Offset(step.item.segment + 1) - step.begin;
    const std::uint64_t before = step.item.run * RunElements();
    const std::uint64_t elements = EndOfRun(step) - before;
    step.number = cursor.number;
    step.steps = static_cast<std::uint32_t>((elements + StepElements() - 1) >> step_shift());
    step.first = before + step.number * StepElements();
    step.begin += step.first;
    step.end = step.begin + min(StepElements(), EndOfRun(step) - step.first);
    return step;
  }

  // The step after `step`, which does not end its item: the same as At would find, but faster.
  __device__ __forceinline__ SegmentStep Following(const SegmentStep& step) const {
    SegmentStep next = step;
    ++next.number;
    next.first += StepElements();
    next.begin = step.end;
    next.end = next.begin + min(StepElements(), EndOfRun(next) - next.first);
    return next;
  }

  // How many runs a segment of `length` elements is cut into.
  __device__ __forceinline__ std::uint32_t Runs(std::uint64_t length) const {
    const std::uint32_t shift = plan_.leaf_shift + plan_.run_level;
    return static_cast<std::uint32_t>((length + (std::uint64_t{1} << shift) - 1) >> shift);
  }

 private:
  __device__ __forceinline__ std::uint32_t step_shift() const {
    return plan_.leaf_shift + plan_.step_level();
  }
  __device__ __forceinline__ std::uint64_t StepElements() const { return std::uint64_t{1} << step_shift(); }
  __device__ __forceinline__ std::uint64_t RunElements() const {
    return std::uint64_t{1} << (plan_.leaf_shift + plan_.run_level);
  }
  // Within its segment.
  __device__ __forceinline__ std::uint64_t EndOfRun(const SegmentStep& step) const {
    return min((std::uint64_t{step.item.run} + 1) * RunElements(), step.length);
  }

  __device__ __forceinline__ SegmentItem Item(std::uint64_t number) const {
    if (plan_.items != nullptr) return plan_.items[number];
    SegmentItem item;
    if (plan_.tile_segments != 0) {
      item.segment = static_cast<std::uint32_t>(number) * plan_.tile_segments;
      item.count = static_cast<std::uint32_t>(
          min(std::uint64_t{plan_.tile_segments}, plan_.segment_count - item.segment));
      return item;
    }
    const std::uint32_t runs = Runs(plan_.length);
    item.segment = static_cast<std::uint32_t>(runs == 1 ? number : number / runs);
    item.first_run = item.segment * runs;
    item.run = static_cast<std::uint32_t>(number) - item.first_run;
    return item;
  }

  const SegmentPlan plan_;
};

}  // namespace warpfold::kernels::cuda
