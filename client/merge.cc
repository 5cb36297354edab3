// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/merge.h"

#include <cstddef>
#include <utility>

#include "client/retry.h"
#include "client/status.h"
#include "warpfold/v1/reduction.grpc.pb.h"

namespace warpfold {
namespace {

// Messages of 4 MiB are what servers take, and what gRPC takes of an answer. Nodes have at most 32 KiB, and
// there are two of each level, or one where a state starts with the array: of arrays of 2^50 bytes, 3.6 MiB
// in two states.
constexpr std::size_t kMaxStatesBytes = std::size_t{3} << 20;

absl::StatusOr<v1::Reduction> Merge(const ReduceJob& job, const v1::MergeRequest& request,
                                    Connection& connection) {
  RetryLoop retry(job.client_options, connection, job.deadline, job.options.stop);
  while (true) {
    CallScope scope(connection, job.deadline, job.options.stop);
    v1::MergeResponse response;
    const grpc::Status grpc_status =
        v1::ReductionService::NewStub(scope.channel())->Merge(&scope.context(), request, &response);
    if (grpc_status.ok()) return std::move(*response.mutable_reduction());
    const absl::Status status = FromGrpc(grpc_status);
    if (!retry.Again(status, /*took_data=*/false)) return status;
  }
}

}  // namespace

absl::StatusOr<v1::Reduction> MergeStates(const ReduceJob& job, std::vector<v1::PartialState> states,
                                          Connection& connection) {
  v1::MergeRequest request;
  *request.mutable_spec() = job.spec;
  std::size_t bytes = 0;
  for (v1::PartialState& state : states) {
    const std::size_t state_bytes = state.ByteSizeLong();
    // A call with one state would gain nothing.
    if (request.states_size() > 1 && bytes + state_bytes > kMaxStatesBytes) {
      request.set_return_state(true);
      absl::StatusOr<v1::Reduction> merged = Merge(job, request, connection);
      if (!merged.ok()) return merged;
      request.clear_states();
      bytes = merged->state().ByteSizeLong();
      *request.add_states() = std::move(*merged->mutable_state());
    }
    *request.add_states() = std::move(state);
    bytes += state_bytes;
  }
  request.set_return_state(false);
  return Merge(job, request, connection);
}

}  // namespace warpfold
