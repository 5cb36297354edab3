// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/calls/server_info.h"

#include <algorithm>

#include "absl/time/time.h"
#include "kernels/geometry.h"
#include "kernels/reduction.h"
#include "server/core/wire/messages.h"
#include "server/core/wire/operator_names.h"
#include "server/version.h"

namespace warpfold::server {
namespace {

v1::ServerLimits ReportedLimits(const Service& service) {
  v1::ServerLimits limits;
  limits.set_max_message_bytes(kMaxPayloadBytes);
  limits.set_max_stream_bytes(service.limits.max_stream_bytes);
  limits.set_max_stream_seconds(absl::ToInt64Seconds(service.limits.call.duration));
  limits.set_idle_timeout_seconds(absl::ToInt64Seconds(service.limits.call.idle));
  limits.set_max_concurrent_reductions(service.limits.max_concurrent_reductions);
  limits.set_slots(service.limits.slots);
  limits.set_slot_bytes(service.limits.slot_bytes);
  limits.set_max_matrix_dimension(kernels::kMaxMatrixDimension);
  limits.set_leaf_bytes(kLeafBytes);
  limits.set_max_first_byte(service.limits.max_first_byte());
  limits.set_resident_bytes(service.residents.room().bytes);
  limits.set_resident_owner_bytes(service.residents.limits().owner_bytes);
  limits.set_default_time_to_live_seconds(
      absl::ToInt64Seconds(service.residents.limits().default_time_to_live));
  limits.set_max_time_to_live_seconds(absl::ToInt64Seconds(service.residents.limits().max_time_to_live));
  return limits;
}

v1::TransferAdvice AdviceOf(const Service& service) {
  v1::TransferAdvice advice;
  advice.set_chunk_bytes(kAdvisedChunkBytes);
  advice.set_streams(service.limits.advised_streams);
  advice.set_min_stripe_bytes(kAdvisedMinStripeBytes);
  return advice;
}

}  // namespace

v1::GetServerInfoResponse GetServerInfo(const Service& service) {
  v1::GetServerInfoResponse response;
  response.set_version(kVersion);
  response.set_backend(service.backend.name());
  response.set_device(service.backend.device());
  const auto names = kernels::OperatorNames();
  for (std::size_t op = 0; op < names.size(); ++op) {
    const int position = static_cast<int>(op);
    v1::OperatorInfo& info = *response.add_operators();
    info.set_operator_(OperatorByName(names[op]));
    for (int i = 0; i < kElementTypeCount; ++i) {
      const auto type = ElementTypeAt(i);
      if (kernels::OperatorTakesScalars(position, type)) info.add_scalar_types(ElementTypeToProto(type));
      if (kernels::OperatorTakesMatrices(position, type)) info.add_matrix_types(ElementTypeToProto(type));
    }
  }
  for (int i = 0; i < kernels::kAlgorithmCount; ++i) {
    const auto algorithm = static_cast<kernels::Algorithm>(i);
    if (service.backend.Supports(algorithm)) response.add_algorithms(AlgorithmToProto(algorithm));
  }
  *response.mutable_limits() = ReportedLimits(service);
  kernels::ReductionSpec sum;
  sum.operators = {"sum"};
  sum.element_type = kernels::ElementType::kFloat32;
  if (const auto reduction = kernels::ReductionPlan::Create(sum); reduction.ok()) {
    response.set_cpu_crossover_bytes(
        std::max(service.cpu_crossover_bytes, service.crossovers.BytesFor(*reduction)));
  }
  *response.mutable_transfer_advice() = AdviceOf(service);
  return response;
}

}  // namespace warpfold::server
