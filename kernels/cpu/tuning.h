// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// All constants of the cpu backend that were chosen by measurement, except for the default of
// BackendOptions::inline_time. That is an option because tests and a benchmark set it so low that the pool
// gets all tasks. The bits of results do not depend on any of these constants.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace warpfold::kernels::cpu {

// A subtree of 2^5 leaves (128 KiB) is one task for a thread: small enough to divide one message among
// threads, and to look at the time between two tasks; large enough that handing one over costs nothing. A
// task of segments has as many bytes, and no more results than take about as long if segments are tiny: some
// 0.3 us each.
inline constexpr std::uint32_t kTaskLevel = 5;
inline constexpr std::uint64_t kTaskResults = 1024;
// Tasks get smaller from twice kTaskOperators on: threads take turns between tasks, and the slowest
// operators take some 1 ms for 128 KiB.
inline constexpr std::uint64_t kTaskOperators = 4;

// A task whose bytes lie in several pieces is divided into subtrees that lie in one if the states of a node
// have at most this many bytes. Combining larger ones takes longer than copying what the cuts divide: of
// products of 32 x 32 float64 ten times as long (docs/adr/0138).
inline constexpr std::size_t kMaxDividedNodeBytes = 128;

// The size of a slot if the caller does not give one. A slot is filled and reduced by the same core, which
// should find the bytes in its second-level cache.
inline constexpr std::size_t kDefaultSlotBytes = 512 << 10;

// A StartFrom takes at most kMaxBytesFromMemory: enough work for all threads, and little enough that calls
// take turns.
inline constexpr std::size_t kMaxBytesFromMemory = 32 << 20;
// A StartFrom also takes no more than one thread reduces in this time, as far as is known, or than a slot
// holds, if that is more (and kMaxBytesFromMemory allows it). So calls wait for a slot only a few times that
// long, however slow the operators of others are.
inline constexpr std::chrono::nanoseconds kTimeFromMemory = std::chrono::milliseconds(10);

// A turn of a job (job_queue.h): long compared with the time to pick a batch, and short compared with what a
// caller notices.
inline constexpr std::chrono::nanoseconds kTurn = std::chrono::microseconds(500);
// The time that an operator is assumed to take for a byte until it has been measured (costs.h). Slow ones
// take 1 to 4 ns.
inline constexpr std::uint64_t kAssumedPicoseconds = 1500;

// A group is far behind if it has had kFarBehind less than the group that has had most (group_times.h). None
// counts as further behind than kMaxBehind, so that nobody saves up for later by being idle.
inline constexpr std::chrono::nanoseconds kFarBehind = std::chrono::milliseconds(8);
inline constexpr std::chrono::nanoseconds kMaxBehind = 2 * kFarBehind;
// A group competes if threads worked for it within the last kLately of work, added up over all threads.
inline constexpr std::chrono::nanoseconds kLately = std::chrono::milliseconds(256);

// A Start that yields to other groups stays on its own thread for up to kYieldingTime, as long as at least
// one in kBusyPart of the other threads works: if fewer work, processors are idle. Measured with 72 callers
// on 16 processors (docs/adr/0122).
inline constexpr std::chrono::nanoseconds kYieldingTime = std::chrono::milliseconds(3);
inline constexpr int kBusyPart = 4;

// Entries of matrices that are reduced side by side: the states of kEntriesAtOnce stay in the first-level
// cache.
inline constexpr std::uint32_t kEntriesAtOnce = 64;

// exact_sum: lanes side by side, for the compiler to vectorise, and the number of blocks of elements before
// an accumulator propagates its carries.
inline constexpr int kExactLanes = 8;
inline constexpr std::uint64_t kExactBlocksPerSum = 256;

// variance of floats: vectors of columns whose sums stay in registers in the second sweep, and how much of
// the next leaf of float64 is prefetched meanwhile.
inline constexpr std::uint32_t kVarianceVectors = 4;
inline constexpr std::uint32_t kPrefetchedBytes = 2 << 10;
inline constexpr std::uint32_t kCacheLineBytes = 64;

// Columns of float16 and bfloat16 whose sums stay in registers, and elements that are converted at once.
inline constexpr std::uint32_t kHalfVectors = 2;
inline constexpr std::uint32_t kConvertedAtOnce = 16;

// product of integers: multiplications that do not wait for each other.
inline constexpr std::uint64_t kProductChains = 8;

}  // namespace warpfold::kernels::cpu
