// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the host passes to a kernel over segments, and the table of functions that launch one. There is no
// abseil in here: nvcc compiles this once per operator.
//
// Work comes in items, one after the other for each warp: a tile of several adjacent segments that together
// are no longer than a leaf (in registers: than a run), or a run of 2^run_level leaves of a longer segment.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/tuning.h"
#include "kernels/geometry.h"
#include "kernels/segment_out.h"
#include "kernels/types.h"

namespace warpfold::kernels::cuda {

inline constexpr std::uint32_t kTileSegments = 32;  // a lane finishes each

// log2 of how many segments of `vectors` vectors, at most a leaf's, fit in a leaf's rows if each begins with
// its own row.
constexpr std::uint32_t LogSegmentsInRows(std::uint64_t vectors) {
  return vectors <= 2 * kLanes ? 2 : vectors <= 4 * kLanes ? 1 : 0;
}

// Segments [segment, segment + count); if count is 0, run number `run` of one segment, whose first run is
// number `first_run` among those of all segments. An item is one vector, which a lane loads at once. 32 bits
// suffice: no launch has 2^32 segments (DeviceSegmentReducer::Capacity).
struct alignas(kVectorBytes) SegmentItem {
  std::uint32_t segment = 0;
  std::uint32_t count = 0;
  std::uint32_t run = 0;
  std::uint32_t first_run = 0;
};

struct SegmentPlan {
  const std::byte* data = nullptr;  // device memory, aligned to an element
  ElementType type = ElementType::kInt32;
  std::uint32_t element_shift = 0;  // log2 of an element's bytes
  std::uint32_t leaf_shift = 0;     // log2 of a leaf's elements
  std::uint64_t segment_count = 0;
  // The number of elements of each segment or, if these differ, the numbers before each segment and after the
  // last one.
  std::uint64_t length = 0;
  const std::uint64_t* offsets = nullptr;
  // All items in the order of memory; null if segments are equally long, and arithmetic finds them.
  const SegmentItem* items = nullptr;
  std::uint64_t item_count = 0;
  std::uint32_t tile_segments = 0;  // of equal segments, in a tile; 0: they are cut into runs
  std::uint32_t run_level = 0;
  // Whether all segments are whole 16-byte vectors of elements of 32 or 64 bits, and are folded in registers.
  bool in_registers = false;

  // log2 of the leaves that a warp folds in one step of a run.
  constexpr std::uint32_t step_level() const { return in_registers ? kPlacesLevel : 0; }
};

// Where partials and results go. It belongs to one stream.
struct SegmentWork {
  std::byte* partials = nullptr;      // a state for each run
  unsigned* tickets = nullptr;        // one for each run, 0 between launches: they wrap by themselves
  unsigned* has_errors = nullptr;     // set to 1 if a result is an error; mapped host memory
  std::uint32_t multiprocessors = 0;  // of the device
  SegmentOut out;
};

// Launches one kernel on the stream; returns cudaGetLastError().
using SegmentLaunchFunction = cudaError_t (*)(const OperatorParameters& parameters, const SegmentPlan& plan,
                                              const SegmentWork& work, cudaStream_t stream);

// A kernel reads elements of several types as the widest one of their kind, which has the same values and,
// once finished, the same results.
enum class WideKind : std::uint8_t { kSigned, kUnsigned, kFloat, kFloatIgnoringNan };
inline constexpr int kWideKinds = 4;

struct SegmentEntry {
  SegmentLaunchFunction launch = nullptr;
  std::uint32_t state_bytes = 0;
  // The elements of a leaf, if a leaf state cannot hold positions in a larger one: for ordered operators over
  // integers, which are read as 64-bit ones. Otherwise 0. Only operators that are associative to the last bit
  // have it: their bits do not depend on the size of a leaf.
  std::uint32_t leaf_elements = 0;
  bool has_registers = false;  // folds whole vectors of elements of 32 and 64 bits in registers
};
using SegmentFunctionRow = std::array<SegmentEntry, kWideKinds>;

// The rows of all operators, in the order of the operator list, for the kernels over segments.
std::span<const SegmentFunctionRow* const> SegmentRows();

}  // namespace warpfold::kernels::cuda
