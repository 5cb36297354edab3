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
#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/core/calls/service.h"
#include "server/files/tls_keys.h"
#include "server/net/acceptor.h"
#include "server/rpc/rpc_shard.h"
#include "server/rpc/tls_credentials.h"

namespace warpfold::server {

struct RpcServerOptions {
  std::vector<std::string> listen;  // "host:port" (port 0: a free one) or "unix:/path"
  std::optional<TlsKeys> tls = {};  // for host:port; unix sockets are always plaintext
  bool allow_insecure = false;      // without keys, host:port may be reachable from other machines
  std::size_t max_connections = 0;  // 0: what the limit on open files leaves room for
  // Other parts of the process may open this many later, so that connections must not take them.
  std::size_t other_descriptors = 0;
  // The most that gRPC may hold of what clients have sent; without it, as much as they like.
  std::optional<std::uint64_t> received_bytes = {};
  bool channelz = false;  // gRPC's own service about connections and calls, on threads of gRPC's
  // Called when all names have been looked up, before the first address listens: nobody can connect earlier.
  std::function<void()> before_listening = [] {};
};

// How many shards to run: one for each processor that the process may use (proto/shared/processors.h), but no
// more than there are slots (of each device) for.
int ShardCount(std::size_t slots);

// How many slots of all shards together are in each state, and how many calls wait for one.
struct SlotCounts {
  std::size_t free = 0;
  std::size_t in_flight = 0;
  std::size_t waiting = 0;  // calls
};

class RpcServer {
 public:
  // Serves from its return on. `service` must outlive the server. INVALID_ARGUMENT if an address cannot be
  // listened on, or must not be without TLS, the TLS keys are not usable, or there is no room for so many
  // connections; UNAVAILABLE if an address may become available later; RESOURCE_EXHAUSTED if the system
  // allows too few threads.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(Service& service, const RpcServerOptions& options);

  // Does the same as Drain without grace, unless Drain has been called.
  ~RpcServer();

  // Like `listen`, with the ports that were bound.
  const std::vector<std::string>& addresses() const { return addresses_; }

  // Sets the keys for handshakes from now on, if there were keys at the start. From any thread.
  void UseTls(const TlsKeys& keys);

  std::shared_ptr<grpc::Channel> InProcessChannel(const grpc::ChannelArguments& arguments);

  // True once the device has failed: from then on reductions and merges fail with UNAVAILABLE, health is
  // NOT_SERVING, and the process should end.
  bool faulted() const { return faulted_.load(); }

  // The number of reductions and merges.
  int in_progress() const { return service_.admission.in_progress(); }

  // The counts at one moment. Waits for each shard.
  SlotCounts slots();
  // The counts that each shard published last. Does not wait.
  SlotCounts published_slots() const;
  ConnectionCounts connections() const { return acceptor_->counts(); }

  // Blocks until no reduction is in progress; false if that took longer than `timeout`.
  bool WaitUntilIdle(absl::Duration timeout) { return service_.admission.WaitUntilEmpty(timeout); }

  // The orderly end: health says NOT_SERVING, the addresses close, and new reductions are rejected
  // (UNAVAILABLE, DRAINING). Connected clients are told to go elsewhere (GOAWAY) once no part of an array is
  // expected anymore. Calls in progress, and the merges that follow from them, have until `grace`, and are
  // then stopped; then connections close and threads end.
  void Drain(absl::Duration grace);

  // Closes the addresses. From any thread, and any number of times.
  void StopListening();

 private:
  explicit RpcServer(Service& service) : service_(service) {}

  absl::Status Listen(const RpcServerOptions& options);
  void MakeAcceptor(std::vector<Listener> listeners, std::size_t max_connections);
  void MakeShards(std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues);
  absl::Status Serve();
  void Watch();
  void CheckForFault();
  void StopServing();
  void StopAll(const absl::Status& why);
  // Whether the condition became true before the deadline.
  bool WaitUntil(const std::function<bool(absl::Time)>& condition, absl::Time deadline);
  void EndAllUntilDisconnected(const absl::Status& why);
  void WaitUntilShardsAreIdle();

  Service& service_;
  grpc::AsyncGenericService methods_;
  std::shared_ptr<TlsCredentials> tls_;  // null without keys
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::string> addresses_;
  // Where connections are handed over, in plaintext and with TLS.
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> plain_entrance_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> tls_entrance_;  // null without keys
  std::unique_ptr<Acceptor> acceptor_;
  std::once_flag stopped_listening_;
  std::vector<std::unique_ptr<RpcShard>> shards_;
  std::thread watchdog_;
  std::atomic<bool> stop_watchdog_ = false;
  std::atomic<bool> faulted_ = false;
};

}  // namespace warpfold::server
