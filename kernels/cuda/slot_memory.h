// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory that a slot on a GPU takes besides its staging buffer and the twin of that: most of it is tables
// and results of segments. There is no CUDA in here: a server adds it up before there is any slot.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/matrix/tree_schedule.h"
#include "kernels/cuda/tuning.h"
#include "kernels/reduction.h"
#include "kernels/segments.h"

namespace warpfold::kernels::cuda {

// A range has at most two maximal subtrees of each level. Levels are fewer than 40: a range lies in memory
// that a device can address, less than 2^50 bytes, and a leaf has at least 2^11.
inline constexpr std::size_t kMaxNodes = 2 * 40;

// Sizes of a SegmentItem (segments/segment_plan.h) and of a Tile (gather.h).
inline constexpr std::size_t kSegmentItemBytes = 16;
inline constexpr std::size_t kGatherTileBytes = 24;
// The flag that says whether there are errors has its own vector, before the errors.
inline constexpr std::size_t kErrorFlagBytes = 16;

// Bytes of the tables of a DeviceSegmentReducer that has room for this many bytes of results.
struct SegmentTables {
  std::size_t offsets = 0;
  std::size_t items = 0;
  std::size_t errors = 0;
};
constexpr SegmentTables TablesOfSegments(std::size_t result_bytes) {
  const std::size_t segments = result_bytes / sizeof(std::uint64_t);
  // A tile has at least one segment. Items follow the offsets, at a whole vector.
  return {.offsets = (segments + 2) * sizeof(std::uint64_t),
          .items = (segments + kMaxRuns) * kSegmentItemBytes,
          // There may be as many as a slot's twin of the staging buffer has room for the results of, if these
          // go to the caller's memory.
          .errors = kErrorFlagBytes + kSegmentResultShare * segments};
}

// A DeviceReducer's memory for the partials of a range of `array_bytes`. A quarter of the range's bytes is
// enough for every kernel: the units of matrix products and of entrywise operators are chosen so large that
// their states take no more (tuning.h). Operators over scalars have at most one state per leaf, and a third
// more for the states that these are folded into, which is less than a quarter (fold.cuh).
constexpr std::size_t PartialBytes(std::size_t array_bytes) { return array_bytes / 4 + kMaxNodeBytes; }
constexpr std::size_t TicketBytes(std::size_t array_bytes) {
  return TreeTickets(array_bytes) * sizeof(unsigned);
}

// Each piece may end with a tile that is not full.
constexpr std::size_t GatherTiles(std::size_t bytes, std::size_t pieces) {
  return bytes / kTileBytes + pieces;
}

struct SlotMemory {
  std::uint64_t host_bytes = 0;  // pinned
  std::uint64_t device_bytes = 0;
};
constexpr SlotMemory MemoryOfSlot(std::size_t slot_bytes) {
  const std::size_t results = slot_bytes / kSegmentResultShare;
  const SegmentTables tables = TablesOfSegments(results);
  const std::size_t array_bytes = std::max(slot_bytes, kSlotReducerBytes);
  return {.host_bytes = slot_bytes + kMaxNodes * kMaxNodeBytes + results + tables.offsets + tables.items +
                        tables.errors + GatherTiles(slot_bytes, Slot::kMaxPieces) * kGatherTileBytes,
          .device_bytes = slot_bytes + PartialBytes(array_bytes) + TicketBytes(array_bytes) + results +
                          kRunStateBytes + kMaxRuns * sizeof(unsigned) + tables.offsets + tables.items};
}

}  // namespace warpfold::kernels::cuda
