// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reduces ranges that lie in device memory: slots do that after their copy; benchmarks and resident arrays do
// it without one.
//
// Threads: only one caller at a time, with one stream. All memory is allocated by Create.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/vocabulary.h"
#include "kernels/partial_state.h"
#include "kernels/reduction.h"

namespace warpfold::kernels::cuda {

class DeviceReducer {
 public:
  // Takes ranges of up to `array_bytes`, and longer ones of scalars, on the current device, with grids for as
  // many multiprocessors as the device has, or as a test specifies.
  static absl::StatusOr<std::unique_ptr<DeviceReducer>> Create(std::size_t array_bytes,
                                                               std::uint32_t multiprocessors = 0);
  ~DeviceReducer();
  DeviceReducer(const DeviceReducer&) = delete;
  DeviceReducer& operator=(const DeviceReducer&) = delete;

  // How many elements one Launch can take: a positive multiple of the leaf size.
  std::uint64_t Capacity(const ReductionPlan& reduction) const;

  // Bytes of device memory for a launch's partials, and for the states that the last block folds them into.
  std::size_t partial_bytes() const { return partial_bytes_; }

  // Enqueues the kernels that reduce `data` (device memory, 16-byte aligned) and returns without waiting.
  // Ranges as for Slot::Start. UNAVAILABLE (DEVICE_LOST) if the device failed; INTERNAL (LAUNCH_REFUSED) if
  // CUDA refused one of the launches, while others may have been enqueued; INTERNAL, with nothing enqueued,
  // for more elements than Capacity, or data that are not aligned.
  absl::Status Launch(const ReductionPlan& reduction, std::uint64_t first_element, const std::byte* data,
                      std::uint64_t element_count, cudaStream_t stream);

  // The result of the last Launch, once the stream has finished it. The caller synchronises.
  PartialState Collect() const;

 private:
  explicit DeviceReducer(std::size_t array_bytes);
  absl::Status Allocate(std::uint32_t multiprocessors);
  std::vector<std::byte> StatesOf(const std::byte* node) const;

  const std::size_t array_bytes_;
  const std::size_t partial_bytes_;
  std::uint32_t multiprocessors_ = 0;
  std::byte* partials_ = nullptr;
  unsigned* tickets_ = nullptr;
  std::byte* nodes_ = nullptr;         // mapped host memory, as the host sees it
  std::byte* device_nodes_ = nullptr;  // and as the device does

  // The arguments of the last Launch.
  std::optional<ReductionPlan> reduction_;
  std::uint64_t first_element_ = 0;
  std::uint64_t element_count_ = 0;
};

}  // namespace warpfold::kernels::cuda
