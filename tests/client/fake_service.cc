// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/client/fake_service.h"

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "google/rpc/status.pb.h"
#include "proto/metadata.h"

namespace warpfold {
namespace {

std::int64_t SumOf(const std::string& data) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i + 4 <= data.size(); i += 4) {
    std::int32_t element = 0;
    std::memcpy(&element, data.data() + i, 4);
    sum += element;
  }
  return sum;
}

void Answer(std::int64_t sum, std::uint64_t element_count, v1::Reduction& reduction) {
  v1::OperatorResult& result = *reduction.add_results();
  result.set_operator_(v1::OPERATOR_SUM);
  result.set_int64_value(sum);
  reduction.set_element_count(element_count);
  reduction.set_device("fake");
  reduction.mutable_timings()->set_kernel_ns(1000);
}

}  // namespace

grpc::Status ErrorWithReason(grpc::StatusCode code, const std::string& message, const std::string& reason) {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("warpfold");
  (*info.mutable_metadata())["field"] = "header";
  google::rpc::Status details;
  details.set_code(code);
  details.set_message(message);
  static_cast<void>(details.add_details()->PackFrom(info));
  return grpc::Status(code, message, details.SerializeAsString());
}

grpc::Status Busy(std::int64_t retry_ms) {
  const grpc::Status status =
      ErrorWithReason(grpc::StatusCode::RESOURCE_EXHAUSTED, "busy", "TOO_MANY_REDUCTIONS");
  google::rpc::Status details;
  static_cast<void>(details.ParseFromString(status.error_details()));
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(retry_ms / 1000);
  retry.mutable_retry_delay()->set_nanos(static_cast<std::int32_t>(retry_ms % 1000) * 1'000'000);
  static_cast<void>(details.add_details()->PackFrom(retry));
  return grpc::Status(status.error_code(), status.error_message(), details.SerializeAsString());
}

bool AsksForAdmission(const grpc::ServerContext& context) {
  const auto found = context.client_metadata().find(metadata::kExpect);
  return found != context.client_metadata().end() && found->second == metadata::kAdmission;
}

v1::GetServerInfoResponse SampleInfo() {
  v1::GetServerInfoResponse info;
  info.set_version("fake");
  info.mutable_limits()->set_max_message_bytes(4 << 20);
  return info;
}

std::vector<SeenCall> FakeService::calls() const {
  absl::MutexLock lock(&mutex_);
  return calls_;
}

int FakeService::started() const {
  absl::MutexLock lock(&mutex_);
  return started_;
}

int FakeService::merges() const {
  absl::MutexLock lock(&mutex_);
  return merges_;
}

int FakeService::questions() const {
  absl::MutexLock lock(&mutex_);
  return questions_;
}

v1::PartialState FakeService::StateOf(std::uint64_t first_element, std::uint64_t element_count,
                                      std::int64_t sum) const {
  std::string bytes(state_bytes, '\0');
  std::memcpy(bytes.data(), &sum, sizeof(sum));
  v1::PartialState state;
  state.set_first_element(first_element);
  state.set_element_count(element_count);
  state.add_nodes()->add_operator_states(bytes);
  return state;
}

grpc::Status FakeService::Start(grpc::ServerContext& context) {
  int call = 0;
  {
    absl::MutexLock lock(&mutex_);
    call = started_++;
  }
  return on_start ? on_start(call, context) : grpc::Status::OK;
}

void FakeService::Keep(SeenCall call) {
  absl::MutexLock lock(&mutex_);
  calls_.push_back(std::move(call));
}

grpc::Status FakeService::Reduce(grpc::ServerContext* context, grpc::ServerReader<v1::ReduceRequest>* reader,
                                 v1::ReduceResponse* response) {
  if (grpc::Status status = Start(*context); !status.ok()) return status;
  if (tells_admissions && AsksForAdmission(*context)) {
    context->AddInitialMetadata(metadata::kAdmitted, metadata::kYes);
    reader->SendInitialMetadata();
  }
  SeenCall call;
  v1::ReduceRequest request;
  while (reader->Read(&request)) {
    if (request.has_header()) call.header = request.header();
    if (request.has_commit()) call.commit = request.commit();
    if (!request.has_chunk()) continue;
    call.data += request.chunk().data();
    request.mutable_chunk()->clear_data();
    call.chunks.push_back(request.chunk());
    if (!on_chunk) continue;
    if (grpc::Status status = on_chunk(call, *context); !status.ok()) return status;
  }
  if (call.commit.byte_count() != call.data.size()) {
    return ErrorWithReason(grpc::StatusCode::DATA_LOSS, "no matching commit", "NO_COMMIT");
  }
  if (on_commit) {
    if (grpc::Status status = on_commit(call, *context); !status.ok()) return status;
  }
  const std::int64_t sum = SumOf(call.data);
  Answer(sum, call.data.size() / 4, *response->mutable_reduction());
  if (call.header.return_state()) {
    *response->mutable_reduction()->mutable_state() =
        StateOf(call.header.first_element(), call.data.size() / 4, sum);
  }
  if (on_answer) on_answer(*response->mutable_reduction());
  Keep(std::move(call));
  return grpc::Status::OK;
}

grpc::Status FakeService::ReduceArray(grpc::ServerContext* context, const v1::ReduceArrayRequest* request,
                                      v1::ReduceArrayResponse* response) {
  if (grpc::Status status = Start(*context); !status.ok()) return status;
  SeenCall call;
  *call.header.mutable_spec() = request->spec();
  call.header.set_request_id(request->request_id());
  call.data = request->data();
  call.small = true;
  Answer(SumOf(call.data), call.data.size() / 4, *response->mutable_reduction());
  if (on_answer) on_answer(*response->mutable_reduction());
  Keep(std::move(call));
  return grpc::Status::OK;
}

grpc::Status FakeService::Merge(grpc::ServerContext*, const v1::MergeRequest* request,
                                v1::MergeResponse* response) {
  int merge = 0;
  {
    absl::MutexLock lock(&mutex_);
    merge = merges_++;
  }
  if (on_merge) {
    if (grpc::Status status = on_merge(merge); !status.ok()) return status;
  }
  if (request->states_size() > 1024) {
    return ErrorWithReason(grpc::StatusCode::INVALID_ARGUMENT, "too many states", "BAD_HEADER");
  }
  std::int64_t total = 0;
  std::uint64_t next_element = 0;
  for (const v1::PartialState& state : request->states()) {
    if (state.first_element() != next_element) {
      return ErrorWithReason(grpc::StatusCode::INVALID_ARGUMENT, "not adjacent", "BAD_STATE");
    }
    next_element += state.element_count();
    std::int64_t sum = 0;
    std::memcpy(&sum, state.nodes(0).operator_states(0).data(), sizeof(sum));
    total += sum;
  }
  Answer(total, next_element, *response->mutable_reduction());
  if (request->return_state()) {
    *response->mutable_reduction()->mutable_state() = StateOf(0, next_element, total);
  }
  if (on_answer) on_answer(*response->mutable_reduction());
  return grpc::Status::OK;
}

grpc::Status FakeService::GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*,
                                        v1::GetServerInfoResponse* response) {
  {
    absl::MutexLock lock(&mutex_);
    ++questions_;
  }
  *response = info;
  return grpc::Status::OK;
}

FakeServer::FakeServer(grpc::Service& service, int port, grpc::Service* second) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // The real server's limit, and gRPC's default.
  builder.SetMaxReceiveMessageSize(4 << 20);
  // A wide window: data that the client cannot send waits in its socket, not in its stream.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 64 << 20);
  builder.AddListeningPort("127.0.0.1:" + std::to_string(port), grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(&service);
  if (second != nullptr) builder.RegisterService(second);
  server_ = builder.BuildAndStart();
  EXPECT_NE(server_, nullptr) << "cannot listen on port " << port;
}

FakeServer::~FakeServer() { server_->Shutdown(std::chrono::system_clock::now()); }

}  // namespace warpfold
