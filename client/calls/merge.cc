// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/merge.h"

#include <cstddef>
#include <utility>

#include "client/calls/answer_check.h"
#include "client/calls/raw_call.h"
#include "client/calls/retry.h"
#include "client/calls/stripes.h"
#include "proto/limits.h"

namespace warpfold {
namespace {

constexpr char kMergeMethod[] = "/warpfold.v1.ReductionService/Merge";

// Servers accept messages of up to 4 MiB, and so does gRPC by default as a client. Two states fit: a node has
// 32 KiB at most, and a state has at most two nodes of each level (one if it starts with the array). Two
// states in the middle of an array can be too large only beyond 2^45 bytes, and then the server says so.
constexpr std::size_t kMaxStatesBytes = std::size_t{3} << 20;

// The range of the array that adjacent states cover.
Stripe RangeOf(const v1::MergeRequest& request) {
  Stripe range = {.first_element = request.states(0).first_element()};
  for (const v1::PartialState& state : request.states()) range.element_count += state.element_count();
  return range;
}

absl::StatusOr<v1::Reduction> Merge(const ReduceJob& job, const v1::MergeRequest& request) {
  v1::MergeResponse response;
  const auto ask = [&](const Connection& connection, const Interrupts& interrupts, Attempt&) {
    CallScope scope(connection, job.deadline, interrupts);
    return CallUnary(scope, kMergeMethod, request, response);
  };
  absl::Status status = RunJob(job, job.targets.Next(), ask, {.patient = true});
  if (!status.ok()) return status;
  status = CheckReduction(job.spec, RangeOf(request), request.return_state(), response.reduction());
  if (!status.ok()) return status;
  return std::move(*response.mutable_reduction());
}

}  // namespace

absl::StatusOr<v1::Reduction> MergeStates(const ReduceJob& job, std::vector<v1::PartialState> states,
                                          bool return_state) {
  v1::MergeRequest request;
  *request.mutable_spec() = job.spec;
  request.set_request_id(job.options.request_id);
  std::size_t bytes = 0;
  for (v1::PartialState& state : states) {
    const std::size_t state_bytes = state.ByteSizeLong();
    // A call with a single state would merge nothing.
    const bool full = request.states_size() == kMaxMergedStates;
    if (full || (request.states_size() > 1 && bytes + state_bytes > kMaxStatesBytes)) {
      request.set_return_state(true);
      absl::StatusOr<v1::Reduction> merged = Merge(job, request);
      if (!merged.ok()) return merged;
      request.clear_states();
      bytes = merged->state().ByteSizeLong();
      *request.add_states() = std::move(*merged->mutable_state());
    }
    *request.add_states() = std::move(state);
    bytes += state_bytes;
  }
  request.set_return_state(return_state);
  return Merge(job, request);
}

}  // namespace warpfold
