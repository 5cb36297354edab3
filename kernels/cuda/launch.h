// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the host passes to a kernel over ranges, and the table of functions that launch one. There is no
// abseil in here, because nvcc compiles this once per operator. The executor on the host uses it, too
// (vocabulary.h), so that it has no CUDA headers, and the table over segments is in segments/segment_plan.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/vocabulary.h"
#include "kernels/operators/rows.h"
#include "kernels/types.h"

namespace warpfold::kernels::cuda {

// A range of whole leaves (the last may be short) of an array in device memory.
struct Range {
  const std::byte* data = nullptr;  // 16-byte aligned
  std::uint64_t element_count = 0;
  std::uint64_t first_leaf = 0;
  std::uint64_t leaf_count = 0;
  std::uint32_t entries = 1;  // of each matrix; 1 for scalars
};

// Where partials and results go. It belongs to one stream, whose kernels use it one after the other.
struct Workspace {
  std::byte* partials = nullptr;  // device memory: see DeviceReducer::Capacity
  // Device memory, 0 between launches: the counters here wrap around by themselves. In kernels with a last
  // block, [0] is its ticket, and [1] counts the units that were drawn. In trees of matrices, [0] counts the
  // spans of elements that were drawn, and from [1] on each group has a ticket.
  unsigned* tickets = nullptr;
  // The states of the range's maximal subtrees, in order, `node_stride` bytes apart. Mapped host memory.
  std::byte* nodes = nullptr;
  std::size_t node_stride = 0;
  std::uint32_t node_count = 0;
  std::uint32_t multiprocessors = 0;  // of the device
};

// Launches one kernel on the stream; returns cudaGetLastError(). The results are in workspace.nodes when the
// stream has reached that point.
using LaunchFunction = cudaError_t (*)(const OperatorParameters& parameters, const Range& range,
                                       const Workspace& workspace, cudaStream_t stream);

using Row = FunctionRow<LaunchFunction>;

// The rows of all operators, in the order of the operator list, for the kernels over ranges.
std::span<const Row* const> Rows();

}  // namespace warpfold::kernels::cuda
