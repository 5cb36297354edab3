// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The service on gRPC: shards, a watchdog over the device, and an orderly end.
//
// Threads: Start, Drain and the destructor from one thread; the rest from any, but not from a shard's.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/support/channel_arguments.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/core/service.h"
#include "server/rpc/rpc_shard.h"

namespace warpfold::server {

// PEM texts. With `client_ca`, whatever its text, clients must show a certificate that it signed.
struct TlsKeys {
  std::string certificate;
  std::string key;
  std::optional<std::string> client_ca;
};

struct RpcServerOptions {
  std::vector<std::string> listen;  // "host:port" (port 0: a free one) or "unix:/path"
  std::optional<TlsKeys> tls;       // for host:port; unix sockets are always plaintext
};

// How many shards to run: one for each core, as far as there are slots for them.
int ShardCount(std::size_t slots);

// Of all shards together, at one moment.
struct SlotCounts {
  std::size_t free = 0;
  std::size_t waiting = 0;  // calls
};

class RpcServer {
 public:
  // Serves from its return on. `service` must outlive the server. UNAVAILABLE if an address cannot be
  // listened on, or the TLS keys are not usable; RESOURCE_EXHAUSTED if the system allows too few threads.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(Service& service, const RpcServerOptions& options);

  // As Drain without grace, unless there has been one.
  ~RpcServer();

  // As `listen`, with the ports that were bound.
  const std::vector<std::string>& addresses() const { return addresses_; }

  std::shared_ptr<grpc::Channel> InProcessChannel(const grpc::ChannelArguments& arguments);

  // What the backend reported when it failed: from then on every call is answered UNAVAILABLE and health
  // is NOT_SERVING. The process should end. OK so far otherwise.
  bool faulted() const { return faulted_.load(); }

  int reductions_in_progress() const { return service_.admission.in_progress(); }

  SlotCounts slots();

  // Blocks until no reduction is in progress; false if that took longer than `timeout`.
  bool WaitUntilIdle(absl::Duration timeout) { return service_.admission.WaitUntilEmpty(timeout); }

  // The orderly end: health says NOT_SERVING and new reductions are refused (UNAVAILABLE, DRAINING); those
  // in progress, and the merges that follow from them, get up to `grace` to finish and are then stopped; then
  // connections close and threads end.
  void Drain(absl::Duration grace);

 private:
  explicit RpcServer(Service& service) : service_(service) {}

  absl::Status Listen(const RpcServerOptions& options);
  void MakeShards(std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues);
  absl::Status Serve();
  void Watch();
  void CheckForFault();
  void StopServing();
  void StopAll(const absl::Status& why);
  bool WaitUntilQuiet(absl::Duration timeout);
  void WaitUntilShardsAreIdle();

  Service& service_;
  grpc::AsyncGenericService methods_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<RpcShard>> shards_;
  std::thread watchdog_;
  std::atomic<bool> stop_watchdog_ = false;
  std::atomic<bool> faulted_ = false;
};

}  // namespace warpfold::server
