// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How segments are divided into items: tiles of adjacent segments, and runs of long ones (docs/adr/0033). The
// bits of the results do not depend on it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/segments/segment_plan.h"
#include "kernels/cuda/tuning.h"
#include "kernels/geometry.h"
#include "kernels/segments.h"

namespace warpfold::kernels::cuda {

// How many runs a segment of more than a leaf has.
inline std::uint64_t RunsOf(std::uint64_t length, const SegmentPlan& plan) {
  const std::uint32_t run_shift = plan.leaf_shift + plan.run_level;
  return (length + (std::uint64_t{1} << run_shift) - 1) >> run_shift;
}

// The most segments that a tile takes if none exceeds a leaf and the longest has `longest` elements.
inline std::uint32_t MostInTile(const SegmentPlan& plan, std::uint64_t longest) {
  if (!plan.in_registers) return kTileSegments;
  const std::uint64_t vectors = (longest << plan.element_shift) / kVectorBytes;
  return std::min(kTileSegments, 1u << (kPlacesLevel + LogSegmentsInRows(vectors)));
}

// The most elements that a tile takes: in registers as many as a run has, so that each warp of the device has
// several items.
inline std::uint64_t MostElementsInTile(const SegmentPlan& plan) {
  return std::uint64_t{1} << (plan.leaf_shift + (plan.in_registers ? plan.run_level : 0));
}

// Calls add(item) for each item in the order of memory: tiles for segments that fit a leaf, runs for longer
// ones.
template <class Add>
void ForEachItem(const SegmentCut& cut, const SegmentPlan& plan, const Add& add) {
  const std::uint64_t leaf = std::uint64_t{1} << plan.leaf_shift;
  const std::uint64_t most_elements = MostElementsInTile(plan);
  std::uint64_t runs = 0;
  for (std::uint64_t segment = 0; segment < cut.segment_count;) {
    SegmentItem item;
    item.segment = static_cast<std::uint32_t>(segment);
    if (cut.lengths[segment] > leaf) {
      item.first_run = static_cast<std::uint32_t>(runs);
      const std::uint64_t count = RunsOf(cut.lengths[segment], plan);
      for (std::uint64_t run = 0; run < count; ++run) {
        item.run = static_cast<std::uint32_t>(run);
        add(item);
      }
      if (count > 1) runs += count;  // a segment of a single run has no partial
      ++segment;
      continue;
    }
    std::uint64_t elements = 0;
    std::uint64_t longest = 0;
    std::uint32_t most_segments = 1;
    // The loop is kept short: it accounts for a good part of the time that a launch over many segments costs
    // the host.
    for (; segment < cut.segment_count; ++segment) {
      const std::uint64_t length = cut.lengths[segment];
      if (length > longest || item.count == 0) {
        if (length > leaf) break;
        longest = length;
        most_segments = MostInTile(plan, longest);
      }
      if (item.count >= most_segments || elements + length > most_elements) break;
      elements += length;
      ++item.count;
    }
    add(item);
  }
}

}  // namespace warpfold::kernels::cuda
