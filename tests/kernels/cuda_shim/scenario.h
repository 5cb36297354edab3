// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Everything that a server requests from the cuda backend, step after step, on the GPUs of the shim. Each
// step compares what it gets with what the CPU backend computes, and fails the test if OK was reported for
// anything else.
//
// Threads: one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/segments.h"
#include "tests/kernels/cuda_shim/shim.h"

namespace warpfold::kernels::shim {

class Scenario {
 public:
  // Whether a failure is reported to somebody. Steps that give resources back have nobody to tell.
  enum class Answer { kReported, kIgnored };
  struct Step {
    const char* name;
    absl::Status (Scenario::*run)();
    Answer answer = Answer::kReported;
  };
  static std::span<const Step> Steps();

  Scenario();

  // Null before it is opened, and after it is closed.
  Backend* backend() { return backend_.get(); }
  // Reductions of an array and of segments on every slot, which must work after a failure that has cost only
  // its request. Before each of them its slot's staging memory is overwritten: nothing may still read it.
  absl::Status ReduceOnEverySlot();

 private:
  absl::Status Probe();
  absl::Status Open();
  absl::Status OpenPieces();
  absl::Status Notify();
  absl::Status ReducePieces();
  absl::Status ReduceSegmentsOfPieces();
  absl::Status Register();
  absl::Status ReduceRegistered();
  absl::Status Allocate();
  absl::Status Store();
  absl::Status StorePieces();
  absl::Status ReduceKept();
  absl::Status ReduceAcross();
  absl::Status OpenMemory();
  absl::Status ReduceOpened();
  absl::Status ReduceLikeSegments();
  absl::Status ReduceVaryingSegments();
  absl::Status ReduceKeptSegments();
  absl::Status RegisterResults();
  absl::Status ReduceSegmentsToMemory();
  absl::Status ReduceSegmentsToOpened();
  absl::Status WriteToOpened();
  absl::Status ReduceByTextbook();
  absl::Status GiveMemoryBack();
  absl::Status Close();

  Slot& slot(int i) { return *backend_->slots()[static_cast<std::size_t>(i)]; }
  std::array<HostPiece, 2> PiecesFor(Slot& slot);
  // The status of a step that lacks what an earlier one could not get: the device is lost by then.
  absl::Status Lacking() const { return backend_->fault(); }
  absl::Status Await(Slot& slot, const absl::Status& started);
  absl::Status AwaitSegments(Slot& slot, const absl::Status& started, const SegmentCut& cut);
  absl::Status ReduceSegmentsTo(std::byte* memory, std::optional<int> device);
  absl::Status AwaitSegmentsOf(const ReductionPlan& plan, Slot& slot, const absl::Status& started,
                               const SegmentCut& cut);

  ProcessMemory exported_;
  std::span<std::byte> host_;     // a client's array
  std::span<std::byte> pieces_;   // where messages arrive
  std::span<std::byte> results_;  // where a client wants results of segments
  std::vector<std::uint64_t> lengths_;
  std::array<int, kGpus> notices_ = {};
  // Memory goes before its backend.
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Memory> registered_;
  std::unique_ptr<Memory> registered_results_;
  std::array<std::unique_ptr<Memory>, kGpus> kept_;
  std::unique_ptr<Memory> opened_;
};

}  // namespace warpfold::kernels::shim
