// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The service on gRPC: completion queues, workers, the watchdog over all calls, health, and an orderly end.
//
// Threads: Start, Drain and the destructor from one thread; the rest from any.
#pragma once

#include <grpcpp/channel.h>
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
#include "server/call_host.h"
#include "server/engine.h"

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

class RpcServer {
 public:
  // Serves from its return on. `engine` must outlive the server. UNAVAILABLE if an address cannot be
  // listened on, or the TLS keys are not usable; RESOURCE_EXHAUSTED if the system allows too few threads.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(Engine& engine, const RpcServerOptions& options);

  // As Drain without grace, unless there has been one.
  ~RpcServer();

  // As `listen`, with the ports that were bound.
  const std::vector<std::string>& addresses() const { return addresses_; }

  std::shared_ptr<grpc::Channel> InProcessChannel(const grpc::ChannelArguments& arguments);

  // What the backend reported when it failed: from then on every call is answered UNAVAILABLE and health
  // is NOT_SERVING. The process should end. OK so far otherwise.
  bool faulted() const { return faulted_.load(); }

  int reductions_in_progress() const { return host_.admission.in_progress(); }

  // Blocks until no reduction is in progress; false if that took longer than `timeout`.
  bool WaitUntilIdle(absl::Duration timeout) { return host_.admission.WaitUntilEmpty(timeout); }

  // The orderly end: health says NOT_SERVING and new reductions are refused (UNAVAILABLE, DRAINING); those
  // in progress, and the merges that follow from them, get up to `grace` to finish and are then stopped; then
  // connections close and threads end.
  void Drain(absl::Duration grace);

 private:
  explicit RpcServer(Engine& engine);

  absl::Status Listen(const RpcServerOptions& options);
  void Serve();
  void Watch();
  void CheckForFault();
  void StopServing();
  bool WaitUntilQuiet(absl::Duration timeout);

  Engine& engine_;
  CallHost host_;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::string> addresses_;
  std::vector<std::thread> queue_threads_;
  std::thread watchdog_;
  std::atomic<bool> stop_watchdog_ = false;
  std::atomic<bool> faulted_ = false;
};

}  // namespace warpfold::server
