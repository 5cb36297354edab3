// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
#include "server/rpc_server.h"

#include <grpcpp/ext/health_check_service_server_builder_option.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "server/process.h"
#include "server/reduce_call.h"
#include "server/transport_settings.h"
#include "server/unary_call.h"
#include "server/unary_methods.h"

namespace warpfold::server {
namespace {

constexpr char kServiceName[] = "warpfold.v1.ReductionService";

constexpr absl::string_view kUnixPrefix = "unix:";

bool IsUnix(absl::string_view address) { return absl::StartsWith(address, kUnixPrefix); }

// How soon an overdue call or a lost device is noticed.
constexpr auto kWatchInterval = std::chrono::milliseconds(50);
constexpr auto kDrainCheckInterval = std::chrono::milliseconds(10);
// How long gRPC may take to send the last answers before it cuts connections.
constexpr auto kLastAnswers = std::chrono::milliseconds(500);

// One queue, with one thread, serves about 2 GB/s; the rest of the cores copy and reduce.
int QueueCount() { return std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 2, 1, 8); }

const UnaryMethod<v1::ReduceArrayRequest, v1::ReduceArrayResponse> kReduceArray = {
    .name = "ReduceArray",
    .request = &AsyncService::RequestReduceArray,
    .handle = &ReduceArray,
    .kind = Admission::Kind::kReduction};

const UnaryMethod<v1::MergeRequest, v1::MergeResponse> kMerge = {
    .name = "Merge",
    .request = &AsyncService::RequestMerge,
    .handle = [](Engine& engine, const CallControl&,
                 const v1::MergeRequest& request) { return Merge(engine, request); },
    .kind = Admission::Kind::kMerge};

const UnaryMethod<v1::GetServerInfoRequest, v1::GetServerInfoResponse> kGetServerInfo = {
    .name = "GetServerInfo",
    .request = &AsyncService::RequestGetServerInfo,
    .handle = [](Engine& engine, const CallControl&, const v1::GetServerInfoRequest&)
        -> absl::StatusOr<v1::GetServerInfoResponse> { return GetServerInfo(engine); },
    .kind = std::nullopt};

std::shared_ptr<grpc::ServerCredentials> Credentials(const std::optional<TlsKeys>& tls) {
  if (!tls.has_value()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(tls->client_ca.has_value()
                                                ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                                : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  options.pem_root_certs = tls->client_ca.value_or("");
  options.pem_key_cert_pairs.push_back({.private_key = tls->key, .cert_chain = tls->certificate});
  return grpc::SslServerCredentials(options);
}

void Poll(grpc::ServerCompletionQueue& queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) CompletionTag::Complete(tag, ok);
}

// As many workers as slots: one more could only wait for a slot.
int WorkerCount(const Engine& engine) { return std::max(1, static_cast<int>(engine.slots.size())); }

}  // namespace

RpcServer::RpcServer(Engine& engine) : engine_(engine), host_(engine, WorkerCount(engine)) {}

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(Engine& engine, const RpcServerOptions& options) {
  std::unique_ptr<RpcServer> server(new RpcServer(engine));
  if (const int workers = server->host_.workers.size(); workers < WorkerCount(engine)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the system allows ", workers, " of ", WorkerCount(engine), " worker threads"));
  }
  if (absl::Status status = server->Listen(options); !status.ok()) return status;
  server->Serve();
  return server;
}

RpcServer::~RpcServer() {
  if (server_ != nullptr) Drain(absl::ZeroDuration());
}

absl::Status RpcServer::Listen(const RpcServerOptions& options) {
  for (const std::string& address : options.listen) {
    if (IsUnix(address) && UnixSocketInUse(address.substr(kUnixPrefix.size()))) {
      return absl::UnavailableError("another server listens on the unix socket");
    }
  }
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  ApplyTransportSettings(builder, engine_.limits.max_concurrent_reductions);
  builder.RegisterService(&host_.service);
  for (int i = 0; i < QueueCount(); ++i) queues_.push_back(builder.AddCompletionQueue());
  std::vector<int> ports(options.listen.size(), 0);
  for (std::size_t i = 0; i < options.listen.size(); ++i) {
    const std::string& address = options.listen[i];
    builder.AddListeningPort(address, Credentials(IsUnix(address) ? std::nullopt : options.tls), &ports[i]);
  }
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    for (const auto& queue : queues_) {
      queue->Shutdown();
      Poll(*queue);
    }
    return absl::UnavailableError("an address cannot be listened on, or the TLS keys are not usable");
  }
  for (std::size_t i = 0; i < options.listen.size(); ++i) {
    const std::string& address = options.listen[i];
    addresses_.push_back(IsUnix(address) ? address
                                         : absl::StrCat(address.substr(0, address.rfind(':') + 1), ports[i]));
  }
  return absl::OkStatus();
}

void RpcServer::Serve() {
  for (const auto& queue : queues_) {
    ReduceCall::Request(host_, queue.get());
    UnaryCall<std::remove_const_t<decltype(kReduceArray)>>::Request(host_, kReduceArray, queue.get());
    UnaryCall<std::remove_const_t<decltype(kMerge)>>::Request(host_, kMerge, queue.get());
    UnaryCall<std::remove_const_t<decltype(kGetServerInfo)>>::Request(host_, kGetServerInfo, queue.get());
    queue_threads_.emplace_back([&polled = *queue] { Poll(polled); });
  }
  server_->GetHealthCheckService()->SetServingStatus(kServiceName, true);
  watchdog_ = std::thread([this] { Watch(); });
}

void RpcServer::Watch() {
  while (!stop_watchdog_) {
    CheckForFault();
    host_.calls.Sweep(engine_.clock());
    std::this_thread::sleep_for(kWatchInterval);
  }
}

void RpcServer::CheckForFault() {
  if (faulted_) return;
  const absl::Status fault = engine_.backend.fault();
  if (fault.ok()) return;
  spdlog::critical("the device failed: {}", absl::StrCat(fault.message()));
  StopServing();
  host_.admission.Close(fault);
  host_.calls.StopAll(fault);
  faulted_ = true;
}

void RpcServer::StopServing() {
  server_->GetHealthCheckService()->SetServingStatus(kServiceName, false);
  server_->GetHealthCheckService()->SetServingStatus(false);
}

std::shared_ptr<grpc::Channel> RpcServer::InProcessChannel(const grpc::ChannelArguments& arguments) {
  return server_->InProcessChannel(arguments);
}

bool RpcServer::WaitUntilQuiet(absl::Duration timeout) {
  const absl::Time deadline = engine_.clock() + timeout;
  while (!host_.admission.IsQuiet(engine_.clock())) {
    if (engine_.clock() >= deadline) return false;
    std::this_thread::sleep_for(kDrainCheckInterval);
  }
  return true;
}

void RpcServer::Drain(absl::Duration grace) {
  const absl::Status draining =
      kernels::Error(absl::StatusCode::kUnavailable, "DRAINING", "the server is shutting down: use another");
  StopServing();
  host_.admission.CloseToReductions(draining);
  const bool quiet = WaitUntilQuiet(grace);
  host_.admission.Close(draining);
  if (!quiet && reductions_in_progress() > 0) {
    spdlog::warn("stopping {} reductions that did not finish in time", reductions_in_progress());
    host_.calls.StopAll(draining);
  }
  server_->Shutdown(std::chrono::system_clock::now() + kLastAnswers);
  host_.admission.WaitUntilEmpty();
  stop_watchdog_ = true;
  watchdog_.join();
  for (const auto& queue : queues_) queue->Shutdown();
  for (std::thread& thread : queue_threads_) thread.join();
  server_ = nullptr;
}

}  // namespace warpfold::server
