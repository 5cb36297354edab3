// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a Call answers requests with a single message: merges, and calls about the server, its health, its API
// and the arrays that it keeps. call.cc has everything that calls have in common, and the calls that take an
// array.
#include <array>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/string_view.h"
#include "grpc/health/v1/health.pb.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"
#include "server/core/bad_request.h"
#include "server/core/calls/array_session.h"
#include "server/core/calls/call.h"
#include "server/core/calls/merge.h"
#include "server/core/calls/put_session.h"
#include "server/core/calls/server_info.h"
#include "server/core/calls/shard.h"
#include "server/core/wire/reflection.h"
#include "server/core/wire/request_parser.h"
#include "server/core/wire/wire_guard.h"

namespace warpfold::server {
namespace {

using HealthRequest = grpc::health::v1::HealthCheckRequest;
using HealthResponse = grpc::health::v1::HealthCheckResponse;

// The services whose health a client may query; "" is the whole server.
constexpr std::array<absl::string_view, 4> kServices = {
    "", "warpfold.v1.ReductionService", "warpfold.v1.SegmentService", "warpfold.v1.ArrayService"};

std::string HealthMessage(HealthResponse::ServingStatus status) {
  HealthResponse response;
  response.set_status(status);
  return response.SerializeAsString();
}

}  // namespace

void Call::TakeRequest(Message message) {
  switch (method_) {
    case Method::kMerge:
      return AnswerMerge(message);
    case Method::kGetServerInfo:
      return AnswerInfo(message);
    case Method::kHealthCheck:
    case Method::kHealthWatch:
      return AnswerHealth(std::move(message));
    case Method::kReflection:
      return Reflect(message);
    case Method::kListArrays:
      return AnswerList(message);
    case Method::kGetArray:
      return AnswerGet(message);
    case Method::kDeleteArray:
      return AnswerDelete(message);
    case Method::kReduce:
    case Method::kReduceArray:
    case Method::kReduceSegments:
    case Method::kPutArray:
    case Method::kUnknown:
      break;  // sessions take the first four, and nothing is read of the last
  }
}

void Call::AnswerList(const Message& message) {
  v1::ListArraysRequest request;
  if (absl::Status status = ParseSmall(message.slices, &request); !status.ok()) return Answer(status);
  const absl::StatusOr<v1::ListArraysResponse> response = ListArrays(shard_.service(), request);
  Answer(response.status(), response.ok() ? response->SerializeAsString() : "");
}

void Call::AnswerGet(const Message& message) {
  v1::GetArrayRequest request;
  if (absl::Status status = ParseSmall(message.slices, &request); !status.ok()) return Answer(status);
  const absl::StatusOr<v1::GetArrayResponse> response = GetArray(shard_.service(), request);
  Answer(response.status(), response.ok() ? response->SerializeAsString() : "");
}

void Call::AnswerDelete(const Message& message) {
  v1::DeleteArrayRequest request;
  absl::Status status = ParseSmall(message.slices, &request);
  if (status.ok()) status = DeleteArray(shard_.service(), request);
  Answer(status, v1::DeleteArrayResponse().SerializeAsString());
}

void Call::AnswerMerge(const Message& message) {
  v1::MergeRequest request;
  if (absl::Status status = ParseWhole(message.slices, kMaxFields, &request); !status.ok())
    return Answer(status);
  if (absl::Status status = CheckText("request_id", request.request_id()); !status.ok())
    return Answer(status);
  merge_request_id_ = std::move(*request.mutable_request_id());
  const absl::StatusOr<v1::MergeResponse> response = Merge(shard_.service(), request, &merged_);
  if (!response.ok()) return Answer(response.status());
  if (response->reduction().has_state()) shard_.service().admission.StateGivenOut(shard_.Now());
  Answer(absl::OkStatus(), response->SerializeAsString());
}

void Call::AnswerInfo(const Message& message) {
  v1::GetServerInfoRequest request;
  if (absl::Status status = ParseSmall(message.slices, &request); !status.ok()) return Answer(status);
  Answer(absl::OkStatus(), GetServerInfo(shard_.service()).SerializeAsString());
}

void Call::AnswerHealth(Message message) {
  if (watch_.is_requested) return Answer(BadMessage("a call of Watch has one message"));
  HealthRequest request;
  const absl::Status status = ParseSmall(message.slices, &request);
  message = {};  // a call that reads holds no message
  if (!status.ok()) return Answer(status);
  watch_.knows_service = absl::c_linear_search(kServices, request.service());
  if (method_ == Method::kHealthWatch) {
    watch_.is_requested = true;
    return Read();
  }
  if (!watch_.knows_service) {
    return Answer(kernels::Error(absl::StatusCode::kNotFound, reason::kUnknownService,
                                 "this server does not have the service", {{"field", "service"}}));
  }
  const bool serving = shard_.service().is_serving();
  Answer(absl::OkStatus(), HealthMessage(serving ? HealthResponse::SERVING : HealthResponse::NOT_SERVING));
}

// A watch may last for ever, and is not read any more: it begins once the client can send nothing on it.
void Call::BeginWatch() {
  absl::StatusOr<Admission::Ticket> place =
      shard_.service().admission.Enter(Admission::Kind::kWatch, {.party = party_});
  if (!place.ok()) return Answer(place.status());
  ticket_ = *std::move(place);
  SendHealth();
}

void Call::SendHealth() {
  const bool serving = shard_.service().serving;  // whose every change is reported
  if (outgoing_.is_under_way || watch_.told_serving == serving) return;
  if (!watch_.knows_service && watch_.told_serving.has_value()) return;
  watch_.told_serving = serving;
  if (!watch_.knows_service) return Send(HealthMessage(HealthResponse::SERVICE_UNKNOWN));
  Send(HealthMessage(serving ? HealthResponse::SERVING : HealthResponse::NOT_SERVING));
}

void Call::Reflect(const Message& message) {
  grpc::reflection::v1::ServerReflectionRequest request;
  if (absl::Status status = ParseSmall(message.slices, &request); !status.ok()) return Answer(status);
  const absl::Time now = shard_.Now();
  timer_.Progress(now, 0);
  timer_.AwaitClient(now);  // to read the answer
  Send(server::Reflect(request).SerializeAsString());
}

}  // namespace warpfold::server
