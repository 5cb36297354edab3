// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The device that the contract suite tests, named by the environment variable WARPFOLD_TEST_DEVICE:
//
//   host:baseline, host:avx2   the calling thread, with that instruction set
//   cpu:N                      the CPU backend with N threads (default: cpu:2)
//   cuda:N                     the cuda backend on GPU N
//   simt:SEED                  kernels executed on the host, in the order that the seed chooses
//
// WARPFOLD_TEST_SCALE=small makes the suite short enough for the host's sanitizers and for memcheck, tiny for
// the device's other sanitizers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/partial_state.h"
#include "kernels/segments.h"

namespace warpfold::kernels {

class DeviceUnderTest {
 public:
  // Created at the first call; ends the process if there is no such device.
  static DeviceUnderTest& Get();

  // Reduces elements first, first + 1, ... in pieces of `piece_leaves` leaves or of a slot's capacity,
  // whichever is less, as many at a time as there are slots.
  PartialState Reduce(const ReductionPlan& reduction, std::uint64_t first, std::span<const std::byte> data,
                      std::uint64_t piece_leaves = ~std::uint64_t{0});

  struct Segments {
    std::vector<std::vector<std::uint64_t>> rows;   // of each segment, its results in the order of columns
    std::vector<std::vector<SegmentError>> errors;  // of each segment
  };
  // Reduces segments, which lie one after the other in `data`, as many at a time as slots have room for.
  Segments ReduceSegments(const ReductionPlan& reduction, const SegmentCut& cut,
                          std::span<const std::byte> data);

  // Null if the device is the calling thread.
  Backend* backend() { return backend_.get(); }

 private:
  explicit DeviceUnderTest(const std::string& name);

  std::unique_ptr<Backend> backend_;
  const cpu::InstructionSet* instruction_set_ = nullptr;
};

bool SmallScale();
bool TinyScale();  // then also small

}  // namespace warpfold::kernels
