// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
#include "server/unary_methods.h"

#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "kernels/error.h"
#include "kernels/reduction.h"
#include "server/array_reducer.h"
#include "server/messages.h"
#include "server/operator_names.h"
#include "server/session.h"
#include "server/version.h"

namespace warpfold::server {
namespace {

constexpr int kMaxMergedStates = 1024;

v1::ServerLimits LimitsOf(const Engine& engine) {
  v1::ServerLimits limits;
  limits.set_max_message_bytes(kMaxMessageBytes);
  limits.set_max_stream_bytes(engine.limits.max_stream_bytes);
  limits.set_max_stream_seconds(absl::ToInt64Seconds(engine.limits.call.duration));
  limits.set_idle_timeout_seconds(absl::ToInt64Seconds(engine.limits.call.idle));
  limits.set_max_concurrent_reductions(engine.limits.max_concurrent_reductions);
  limits.set_slots(engine.slots.size());
  limits.set_slot_bytes(engine.limits.slot_bytes);
  limits.set_max_matrix_dimension(kernels::kMaxMatrixDimension);
  return limits;
}

}  // namespace

absl::StatusOr<v1::ReduceArrayResponse> ReduceArray(Engine& engine, const CallControl& call,
                                                    const v1::ReduceArrayRequest& request) {
  if (absl::Status status = CheckRequestId(request.request_id()); !status.ok()) return status;
  const absl::StatusOr<kernels::Reduction> reduction = ReductionFromProto(request.spec());
  if (!reduction.ok()) return reduction.status();
  if (absl::Status status = CheckAlgorithm(engine, *reduction); !status.ok()) return status;
  if (request.data().size() > engine.limits.max_stream_bytes) {
    return ArrayTooLarge(engine.limits.max_stream_bytes);
  }
  if (request.data().size() % reduction->element_bytes() != 0) {
    return kernels::Error(
        absl::StatusCode::kInvalidArgument, "BAD_MESSAGE",
        absl::StrCat("data must be a whole number of elements of ", reduction->element_bytes(), " bytes"),
        {{"field", "data"}});
  }
  ArrayReducer reducer(engine, call, *reduction, 0);
  if (absl::Status status = reducer.Append(std::as_bytes(std::span(request.data()))); !status.ok()) {
    return status;
  }
  const absl::StatusOr<kernels::PartialState> state = reducer.Finish();
  if (!state.ok()) return state.status();
  v1::ReduceArrayResponse response;
  v1::Reduction& out = *response.mutable_reduction();
  if (absl::Status status = FillReduction(*state, false, &out); !status.ok()) return status;
  FillServerPart(engine, reducer.timings(), absl::ZeroDuration(), &out);
  return response;
}

absl::StatusOr<v1::MergeResponse> Merge(const Engine& engine, const v1::MergeRequest& request) {
  const absl::StatusOr<kernels::Reduction> reduction = ReductionFromProto(request.spec());
  if (!reduction.ok()) return reduction.status();
  if (request.states().empty() || request.states_size() > kMaxMergedStates) {
    return kernels::Error(absl::StatusCode::kInvalidArgument, "BAD_HEADER",
                          absl::StrCat("states must have 1 to ", kMaxMergedStates, " entries"),
                          {{"field", "states"}});
  }
  absl::StatusOr<kernels::PartialState> merged = StateFromProto(*reduction, request.states(0));
  if (!merged.ok()) return merged.status();
  for (int i = 1; i < request.states_size(); ++i) {
    const absl::StatusOr<kernels::PartialState> next = StateFromProto(*reduction, request.states(i));
    if (!next.ok()) return next.status();
    if (absl::Status status = merged->Append(*next); !status.ok()) return status;
  }
  v1::MergeResponse response;
  v1::Reduction& out = *response.mutable_reduction();
  if (absl::Status status = FillReduction(*merged, request.return_state(), &out); !status.ok()) {
    return status;
  }
  FillServerPart(engine, {}, absl::ZeroDuration(), &out);
  return response;
}

v1::GetServerInfoResponse GetServerInfo(Engine& engine) {
  v1::GetServerInfoResponse response;
  response.set_version(kVersion);
  response.set_backend(engine.backend.name());
  response.set_device(engine.backend.device());
  const auto names = kernels::OperatorNames();
  for (std::size_t family = 0; family < names.size(); ++family) {
    const int position = static_cast<int>(family);
    v1::OperatorInfo& info = *response.add_operators();
    info.set_operator_(OperatorByName(names[family]));
    for (int i = 0; i < kernels::kElementTypeCount; ++i) {
      const auto type = static_cast<kernels::ElementType>(i);
      if (kernels::OperatorTakesScalars(position, type)) info.add_scalar_types(ElementTypeToProto(type));
      if (kernels::OperatorTakesMatrices(position, type)) info.add_matrix_types(ElementTypeToProto(type));
    }
  }
  for (int i = 0; i < kernels::kAlgorithmCount; ++i) {
    const auto algorithm = static_cast<kernels::Algorithm>(i);
    if (engine.backend.Supports(algorithm)) response.add_algorithms(AlgorithmToProto(algorithm));
  }
  *response.mutable_limits() = LimitsOf(engine);
  response.set_cpu_crossover_bytes(engine.cpu_crossover_bytes);
  return response;
}

}  // namespace warpfold::server
