// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reduces segments that lie in device memory: slots do that after their copy; benchmarks and resident arrays
// do it without one. If there are few results, the kernels write them directly to the host's memory; if there
// are more, they leave them in device memory, from where commands copy them. If results are wanted on this
// device, they write them there.
//
// Threads: only one caller at a time, with one stream. All memory is allocated by Create.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/segments/segment_plan.h"
#include "kernels/cuda/tuning.h"
#include "kernels/reduction.h"
#include "kernels/segments.h"

namespace warpfold::kernels::cuda {

class DeviceSegmentReducer {
 public:
  // What a Launch may use besides the reducer's own memory.
  struct Places {
    // If the cut has one length and `results`, these may be here on their way: device memory of at most
    // kSegmentResultShare times as many bytes as the reducer has itself. Then CapacityOf says how many
    // segments there may be.
    std::span<std::byte> room;
    bool has_columns = false;  // the cut's `results` are in this device's memory
  };

  // Makes a reducer for at most `result_bytes` of results (at least 16 KiB) at a time, on the current device,
  // with grids for as many multiprocessors as it has. A test may set this number, and fewer runs than
  // kMaxRuns.
  static absl::StatusOr<std::unique_ptr<DeviceSegmentReducer>> Create(std::size_t result_bytes,
                                                                      std::uint32_t multiprocessors = 0,
                                                                      std::uint64_t most_runs = kMaxRuns);
  ~DeviceSegmentReducer();
  DeviceSegmentReducer(const DeviceSegmentReducer&) = delete;
  DeviceSegmentReducer& operator=(const DeviceSegmentReducer&) = delete;

  // How many segments one Launch can take.
  std::uint64_t Capacity(const ReductionPlan& reduction) const {
    return CapacityOf(result_bytes_, reduction);
  }
  // The same, if their results have this much room.
  static std::uint64_t CapacityOf(std::size_t result_bytes, const ReductionPlan& reduction);

  // Enqueues the kernels that reduce segments, which lie one after the other in `data` (device memory,
  // aligned to an element). `cut` is not needed after the call. It waits for nothing, unless lengths vary and
  // some operators, but not all, have their own leaves (SegmentEntry::leaf_elements): then it waits until the
  // device has the tables of one plan before it makes the next. UNAVAILABLE (DEVICE_LOST) if the device
  // failed; INTERNAL (LAUNCH_REFUSED) if CUDA refused one of the launches, while others may have been
  // enqueued; INTERNAL, with nothing enqueued, for more segments than Capacity, or data that are not aligned.
  // The stream must have finished the Launch before.
  absl::Status Launch(const ReductionPlan& reduction, const SegmentCut& cut, const std::byte* data,
                      cudaStream_t stream, const Places& places);

  // Whether the results of the last Launch (there must have been one) have to be copied: the kernels have not
  // written them where they are wanted.
  bool NeedsCopy() const { return !WritesToHost() && !writes_to_columns_; }
  // Enqueues that copy, if it is needed: to the host, or to the cut's `results`, if there are any.
  absl::Status CopyResults(cudaStream_t stream);

  // The results of the last Launch, once the stream has finished it, and CopyResults if that is needed. The
  // caller synchronises.
  SegmentsResult Collect();

 private:
  DeviceSegmentReducer() = default;
  absl::Status Allocate(std::uint32_t multiprocessors);
  // Plans the items of `plan`, which says how the cut's `elements` elements are folded, with room for the
  // largest state of the reduction's operators. Enqueues the copy of the tables that the plan refers to.
  absl::Status Plan(const ReductionPlan& reduction, const SegmentCut& cut, std::uint64_t elements,
                    SegmentPlan& plan, cudaStream_t stream);
  // Columns says where all results go, and WorkOf what one operator does and where its results go.
  ResultColumns Columns() const;
  SegmentWork WorkOf(const ReductionPlan& reduction, std::size_t op) const;
  bool WritesToHost() const;
  absl::Status CopyToColumns(cudaStream_t stream);
  void ClearErrors();
  void PlanAlike(const SegmentCut& cut, std::uint64_t most_runs, SegmentPlan& plan) const;
  absl::Status PlanVarying(const SegmentCut& cut, std::uint64_t most_runs, SegmentPlan& plan,
                           cudaStream_t stream);

  std::size_t result_bytes_ = 0;
  std::uint32_t multiprocessors_ = 0;
  std::uint64_t most_runs_ = 0;
  std::byte* results_ = nullptr;       // device memory
  std::byte* host_results_ = nullptr;  // mapped host memory, as the host and the device see it
  std::byte* mapped_results_ = nullptr;
  std::byte* partials_ = nullptr;  // device memory
  unsigned* tickets_ = nullptr;    // device memory
  // The offsets of a plan for varying lengths, and its items after them.
  std::byte* tables_ = nullptr;       // device memory
  std::byte* host_tables_ = nullptr;  // pinned
  // Mapped host memory, as the host and the device see it: a flag, and after it an error for each operator
  // and segment. All are 0 when kernels are launched.
  std::byte* errors_ = nullptr;
  std::byte* device_errors_ = nullptr;

  // The arguments of the last Launch.
  std::optional<SegmentLayout> layout_;
  std::size_t operators_ = 0;
  std::uint64_t segment_count_ = 0;
  ResultColumns columns_;  // the cut's `results`
  bool writes_to_columns_ = false;
  std::byte* left_results_ = nullptr;  // where kernels leave results that are copied
};

}  // namespace warpfold::kernels::cuda
