// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>

#include <chrono>
#include <memory>
#include <span>
#include <utility>

#include "client/cli/bench/sinks.h"
#include "client/cli/bench/staging.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "warpfold/v1/reduction.grpc.pb.h"

namespace warpfold::cli {
namespace {

std::span<const std::byte> BytesOf(const std::string& data) { return std::as_bytes(std::span(data)); }

// The service that one would write first, with the classes that the protocol compiler generates.
class PlainService final : public v1::ReductionService::Service {
 public:
  grpc::Status Reduce(grpc::ServerContext*, grpc::ServerReader<v1::ReduceRequest>* reader,
                      v1::ReduceResponse* response) override {
    std::unique_ptr<Staging> staging = pool_.Take();
    v1::ReduceHeader header;
    v1::ReduceRequest request;
    while (reader->Read(&request)) {
      if (request.has_header()) header = request.header();
      if (request.has_chunk()) staging->Append(BytesOf(request.chunk().data()));
    }
    *response->mutable_reduction() = AnswerTo(header, request.commit());
    pool_.GiveBack(std::move(staging));
    return grpc::Status::OK;
  }

  grpc::Status ReduceArray(grpc::ServerContext*, const v1::ReduceArrayRequest* request,
                           v1::ReduceArrayResponse*) override {
    std::unique_ptr<Staging> staging = pool_.Take();
    staging->Append(BytesOf(request->data()));
    pool_.GiveBack(std::move(staging));
    return grpc::Status::OK;
  }

  grpc::Status Merge(grpc::ServerContext*, const v1::MergeRequest* request,
                     v1::MergeResponse* response) override {
    *response->mutable_reduction() = AnswerTo(*request);
    return grpc::Status::OK;
  }

  grpc::Status GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*,
                             v1::GetServerInfoResponse* response) override {
    *response = SinkInfo();
    return grpc::Status::OK;
  }

 private:
  StagingPool pool_;
};

class PlainHealth final : public grpc::health::v1::Health::Service {
 public:
  grpc::Status Check(grpc::ServerContext*, const grpc::health::v1::HealthCheckRequest*,
                     grpc::health::v1::HealthCheckResponse* response) override {
    response->set_status(grpc::health::v1::HealthCheckResponse::SERVING);
    return grpc::Status::OK;
  }
};

}  // namespace

absl::Status ServePlainService(const std::string& listen, const Ready& ready) {
  PlainService service;
  PlainHealth health;
  grpc::ServerBuilder builder;
  ApplySinkSettings(builder);
  builder.RegisterService(&service);
  builder.RegisterService(&health);
  int port = 0;
  builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), &port);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return absl::UnavailableError("cannot listen on " + listen);
  ready(BoundAddress(listen, port), [&server] { server->Shutdown(std::chrono::system_clock::now()); });
  server->Wait();
  return absl::OkStatus();
}

}  // namespace warpfold::cli
