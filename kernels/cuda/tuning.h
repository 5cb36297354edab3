// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The constants by which kernels are tuned: shapes of blocks, lengths of runs, and thresholds between
// methods. They were chosen by measurement, and the bits of results do not depend on any of them.
// docs/kernels.md explains what they do; the measurements are in tests/gpu/results. There is no CUDA in here:
// tests of plans run on the host. Constants that the hardware or a format determines are elsewhere, beside
// the code that needs them: a warp's lanes, a vector's bytes, the banks of shared memory, the fragments of
// tensor instructions. So are the textbook's blocks, which are those of the published forms.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpfold::kernels::cuda {

// --- Slots (cuda_backend.cc, cuda_slot.cc) ----------------------------------------------------------------

// The size of a slot if the caller does not give one. Each piece of an array costs the host a copy command, a
// launch and a completion: smaller ones took more of its time, larger ones only more memory
// (docs/data-path.md).
inline constexpr std::size_t kDefaultSlotBytes = 8 << 20;
// A slot's reducer has workspace for kSlotReducerBytes of matrices at once if they lie on the device. Of
// scalars it takes much more.
inline constexpr std::size_t kSlotReducerBytes = 32 << 20;

// Registered memory of the host has parts of this size (registration.h). Launches wait some 3 ms while the
// driver registers one (tests/gpu/results); with smaller parts a GiB takes longer, and more calls.
inline constexpr std::size_t kRegistrationBytes = std::size_t{64} << 20;

// --- Ranges by leaves (reduce_kernel.cuh, leaf/) ----------------------------------------------------------

struct LeavesTuning {
  int warps;                    // of a block
  int blocks;                   // of a multiprocessor
  std::uint32_t largest_level;  // a warp folds runs of at most 2^largest_level leaves
};

// A multiprocessor has two blocks of 8 warps. That leaves a thread 128 registers, and 4 KiB in flight for
// each warp keep the memory busy. 24 warps of 80 registers were tried: their blocks end less evenly. Leaf
// states of more than 40 bytes need more registers, so they have three blocks of 4 warps. Runs of 2^3 leaves
// make enough units for blocks to end together, and leave registers for states that wait. Runs of 2^5 would
// be the longest: then each lane holds the state of one leaf.
constexpr LeavesTuning WarpLeavesTuning(std::size_t leaf_state_bytes) {
  return leaf_state_bytes > 40 ? LeavesTuning{4, 3, 3} : LeavesTuning{8, 2, 3};
}
// For small states, all columns of a lane are folded side by side, so that there is much to do at once; for
// larger ones, one column after the other, to save registers.
inline constexpr std::size_t kMaxColumnBytes = 160;
// If the order does not matter, a lane has at least kMinColumns: a single column waits for each combination.
inline constexpr std::uint32_t kMinColumns = 4;

// Leaves in array order. A block has four warps, because matrices need registers more than warps. Three
// blocks keep the memory busy already. Small states get four; five or six, which would fit, are up to 5 %
// slower. Runs have 2^4 leaves, because the end of a run takes as long as several leaves. Longer ones would
// leave too few registers for the largest states that wait.
constexpr LeavesTuning OrderedLeavesTuning(std::size_t state_bytes) {
  return {4, state_bytes > 16 ? 3 : 4, 4};
}

// first and last if they ignore NaN: a long run costs no more than a short one, unless there are many NaN
// where the search begins, all of which one warp reads.
inline constexpr LeavesTuning kEndLeavesTuning = {4, 8, 20};

// exact_sum (exact/). There are no more units than resident blocks, of any size: a state of up to 280 bytes
// takes the last block a long time.
inline constexpr LeavesTuning kExactTuning = {8, 2, 17};

// Units grow while there are more than this many of them and their level may still rise. Few units keep the
// last block's fold short; the largest level keeps blocks from ending late.
inline constexpr std::uint64_t kManyUnits = 1024;

// From kManyMultiprocessors on, units of every kernel are so small that the edges next to them are few leaves
// (DeviceReducer::Capacity).
inline constexpr std::uint32_t kManyMultiprocessors = 32;

// --- Pieces (gather.cu) -----------------------------------------------------------------------------------

// Together these blocks have 512 KiB on their way over the bus, which needs 75 KiB for 50 GB/s at 1.5 us.
// More blocks would only be in the way: the blocks of other slots' reductions need half of a multiprocessor's
// registers.
inline constexpr std::uint32_t kGatherBlocks = 32;
inline constexpr std::uint32_t kGatherThreads = 256;
// A block moves at most this many bytes at a time: four vectors per thread, and one more in total if the tile
// is not aligned. All of a thread's loads are in flight at once.
inline constexpr std::uint32_t kTileBytes = 16 << 10;

// --- The last block's fold (fold.cuh, node_folder.cuh, warp_folder.cuh) -----------------------------------

// Shared memory for states.
inline constexpr std::uint32_t kFoldBytes = 16384;
// States up to this size are folded by warps, which combine more than necessary, unless there is a modulus,
// with which combining takes long. Other states are folded by threads.
inline constexpr std::size_t kMaxWarpFoldedBytes = 16;
// Up to this many nodes are combined in pairs; if there are more, in fours.
inline constexpr std::uint32_t kFewNodes = 128;
// How many pairs of nodes a thread has in flight, as registers allow, and how many groups a warp has.
constexpr int PairsInFlight(std::size_t state_bytes) { return state_bytes <= 16 ? 4 : 1; }
inline constexpr std::uint32_t kGroupsInFlight = 4;

// --- Matrices (matrix/) -----------------------------------------------------------------------------------

inline constexpr std::uint32_t kEntrywiseThreads = 256;
// log2 of the leaves that a thread folds side by side.
inline constexpr std::uint32_t kEightLevel = 3;
// Units have at least 2^5 leaves, so that the nodes of all rounds are a quarter of the elements or less (an
// operator has at most four times a leaf's bytes of states).
inline constexpr std::uint32_t kSmallestEntrywiseLevel = 5;
inline constexpr std::uint32_t kLargestStretchLevel = 2 * kEightLevel;
inline constexpr std::uint64_t kEntrywiseUnitsPerBlock = 8;
constexpr int EntrywiseBlocks(std::size_t state_bytes) { return state_bytes <= 8 ? 3 : 2; }

// Units of products are large, so that few of them go through global memory, but there are enough that every
// warp has some; and they are at least so large that the nodes of all rounds are a quarter of the elements or
// less, and tickets are few.
inline constexpr std::uint64_t kUnitsPerMultiprocessor = 64;
inline constexpr std::uint32_t kSmallestUnitLevel = 3;
// There are as many warps as shared memory has room for; registers should not be the limit.
constexpr int MatrixTileBlocks(std::size_t entry_bytes, int threads) {
  return (entry_bytes == 4 ? 12 : 8) * 32 / threads;
}
constexpr int TensorTileBlocks(int dimension) { return dimension == 32 ? 6 : 16; }
// The shared memory that a block may have. GPUs before sm_80 have less.
inline constexpr std::uint32_t kMaxTileSharedBytes = 96 << 10;
// No unit has fewer bytes, so that tickets are few (TreeTickets).
inline constexpr std::uint64_t kSmallestUnitBytes = 8192;

// How the lanes of a block share the product of two matrices: rows and columns of lanes, each of which
// computes a tile with these numbers of rows and columns. A fixed dimension has its own kernel, which reads
// whole vectors; the others take all dimensions up to theirs, which the tiles of all lanes cover. From 16
// rows on, integers of 32 bits use the tensor cores if the dimension is fixed.
struct TileTuning {
  std::uint32_t largest_dimension;
  bool is_fixed;
  int lane_rows;
  int lane_columns;
  int rows;
  int columns;
};
inline constexpr TileTuning kTileTunings[] = {
    {3, false, 1, 1, 4, 4},  {4, true, 1, 1, 4, 4},   {7, false, 2, 2, 4, 4},
    {8, true, 4, 2, 2, 4},   {15, false, 2, 4, 8, 4}, {16, true, 4, 4, 4, 4},
    {24, false, 4, 4, 6, 6}, {31, false, 4, 8, 8, 4}, {32, true, 8, 8, 4, 4}};
// Levels of states that wait for their partner in shared memory; more would take the place of other blocks.
constexpr std::uint32_t TileWaitingLevels(int padded_dimension) { return padded_dimension <= 8 ? 4 : 3; }
constexpr std::uint32_t TensorTileWaitingLevels(int dimension) { return dimension == 16 ? 6 : 3; }
// Words of sums that a lane has in registers at once, and steps along the terms that are unrolled.
inline constexpr int kMaxSumWords = 64;
inline constexpr int kUnrolledSteps = 2;
// Loads of a thread that are in flight at once, in loops whose length is known only at run time: loads of
// entries, and asynchronous copies to shared memory. The copies of segments (segment_copy.cuh) have their own
// constants below.
inline constexpr int kLoadsInFlight = 4;
inline constexpr int kCopiesInFlight = 8;

// --- Segments (segments/) ---------------------------------------------------------------------------------

inline constexpr std::uint32_t kSegmentWarps = 4;  // of a block
inline constexpr int kSegmentCopiesInFlight = 4;   // of a thread
// A run usually has 2^kUsualRunLevel leaves. It has fewer if there are few leaves, so that each warp of the
// device gets kRunsForEachWarp runs. It has more if there would otherwise be too many runs (kMaxRuns), but
// never more than 2^kMaxRunLevel.
inline constexpr std::uint32_t kUsualRunLevel = 3;
inline constexpr std::uint32_t kMaxRunLevel = 20;
inline constexpr std::uint64_t kRunsForEachWarp = 4;
inline constexpr std::uint64_t kWarpsOfMultiprocessor = 24;
// If long segments would have more runs than kMaxRuns, the runs are made longer. Their states have
// kRunStateBytes of memory.
inline constexpr std::uint64_t kMaxRuns = 32768;
inline constexpr std::size_t kRunStateBytes = std::size_t{4} << 20;
// The kernels write results of up to this many bytes directly to the host's memory, which saves a command and
// an event, 3 to 8 us. From 64 KiB on a command is faster if lanes write them one by one (docs/adr/0133).
inline constexpr std::size_t kMaxMappedResultBytes = 32 << 10;
// Segments of at least kMinRegisterBytes on average are folded in registers. Sums of segments of 64 bytes
// have 0.7 of the speed there that they have through shared memory, those of 256 bytes 2.6 times the speed
// (tests/gpu/results).
inline constexpr std::uint64_t kMinRegisterBytes = 128;
// Folded in registers, a tile is up to 2^kPlacesLevel times as many segments as fit together in a leaf's
// rows.
inline constexpr std::uint32_t kPlacesLevel = 3;
// There are as many blocks as have room for their registers and buffers on the multiprocessors with the most
// of both: without significant spills if states of leaves wait in registers beside 4 KiB of elements.
constexpr int SegmentBlocks(bool in_registers, std::size_t state_bytes, std::size_t leaf_state_bytes) {
  if (!in_registers) return state_bytes <= 16 ? 6 : 4;
  return leaf_state_bytes <= 8 ? 5 : leaf_state_bytes <= 32 ? 4 : 3;
}
// Larger states of leaves wait in shared memory instead of registers.
inline constexpr std::size_t kMaxWaitingBytes = 16;
// The same as kMaxColumnBytes, if rows may be absent.
inline constexpr std::size_t kMaxSegmentColumnBytes = 96;
// Elements that a lane reads at once from shared memory. There are few: short segments have no more rows, and
// enough warps hide the latency of shared memory.
inline constexpr std::uint32_t kReadAtOnce = 2;

}  // namespace warpfold::kernels::cuda
