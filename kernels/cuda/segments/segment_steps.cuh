// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The steps in which a warp takes the elements of its items: a tile, or one leaf of a run. A step's bytes lie
// one after the other, and are as many as a leaf's at most.
#pragma once

#include <cstdint>

#include "kernels/cuda/segments/segment_plan.h"

namespace warpfold::kernels::cuda {

struct SegmentStep {
  std::uint64_t item_number = 0;
  SegmentItem item;
  std::uint64_t begin = 0;  // the step's elements, counted from the first segment's start
  std::uint64_t end = 0;
  std::uint64_t length = 0;  // elements of the segment, where it is cut into runs
  std::uint32_t leaf = 0;    // within the run
  std::uint32_t leaves = 0;  // that the run has

  __device__ bool is_tile() const { return item.count != 0; }
  __device__ bool ends_item() const { return is_tile() || leaf + 1 == leaves; }
};

class SegmentSteps {
 public:
  __device__ explicit SegmentSteps(const SegmentPlan& plan) : plan_(plan) {}

  // Where segment `i` begins; i = segment_count: where the last one ends.
  __device__ __forceinline__ std::uint64_t Offset(std::uint64_t i) const {
    return plan_.offsets == nullptr ? i * plan_.length : plan_.offsets[i];
  }

  // The first step of an item; false if there is no such item.
  __device__ __forceinline__ bool Begin(std::uint64_t number, SegmentStep& step) const {
    if (number >= plan_.item_count) return false;
    step.item_number = number;
    step.item = Item(number);
    const std::uint64_t begin = Offset(step.item.segment);
    if (step.is_tile()) {
      step.begin = begin;
      step.end = Offset(step.item.segment + step.item.count);
      return true;
    }
    step.length = Offset(step.item.segment + 1) - begin;
    const std::uint64_t run_elements = std::uint64_t{1} << (plan_.leaf_shift + plan_.run_level);
    const std::uint64_t before = step.item.run * run_elements;
    const std::uint64_t elements = min(run_elements, step.length - before);
    step.leaf = 0;
    step.leaves = static_cast<std::uint32_t>((elements + LeafElements() - 1) >> plan_.leaf_shift);
    step.begin = begin + before;
    step.end = step.begin + min(LeafElements(), elements);
    return true;
  }

  // The next one, after which `stride` items further; false if there is none.
  __device__ __forceinline__ bool Next(std::uint64_t stride, SegmentStep& step) const {
    if (step.ends_item()) return Begin(step.item_number + stride, step);
    ++step.leaf;
    step.begin = step.end;
    const std::uint64_t segment_end = Offset(step.item.segment) + step.length;
    step.end = min(step.begin + LeafElements(), segment_end);
    return true;
  }

  // How many runs a segment of `length` elements is cut into.
  __device__ __forceinline__ std::uint32_t Runs(std::uint64_t length) const {
    const std::uint32_t shift = plan_.leaf_shift + plan_.run_level;
    return static_cast<std::uint32_t>((length + (std::uint64_t{1} << shift) - 1) >> shift);
  }

 private:
  __device__ __forceinline__ std::uint64_t LeafElements() const {
    return std::uint64_t{1} << plan_.leaf_shift;
  }

  __device__ __forceinline__ SegmentItem Item(std::uint64_t number) const {
    if (plan_.items != nullptr) return plan_.items[number];
    SegmentItem item;
    if (plan_.tile_segments != 0) {
      item.segment = number * plan_.tile_segments;
      item.count = static_cast<std::uint32_t>(
          min(std::uint64_t{plan_.tile_segments}, plan_.segment_count - item.segment));
      return item;
    }
    const std::uint32_t runs = Runs(plan_.length);
    item.segment = number / runs;
    item.first_run = item.segment * runs;
    item.run = static_cast<std::uint32_t>(number - item.first_run);
    return item;
  }

  const SegmentPlan plan_;
};

}  // namespace warpfold::kernels::cuda
