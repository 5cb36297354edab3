// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the service shows to its operators, over HTTP at --admin_listen:
//
//   /healthz  200 until the device has failed: the process need not be restarted
//   /readyz   200 while it accepts calls; 503 while it starts, drains or has failed
//   /metrics  for Prometheus
//   /statusz  a page for people
//
// It learns of calls as an observer, and reads what shards have published: no page waits for a shard or for
// the device.
//
// Threads: Open, Attach and the destructor from one thread; the observer's functions from any.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/admin/call_metrics.h"
#include "server/admin/call_table.h"
#include "server/admin/device_sampler.h"
#include "server/admin/http_server.h"
#include "server/core/call_observer.h"
#include "server/core/calls/service.h"
#include "server/files/reload.h"
#include "server/memory/memory_rejections.h"
#include "server/net/connections.h"

namespace warpfold::server {

struct PoolGauges {
  std::size_t slots_free = 0;
  std::size_t slots_in_flight = 0;
  std::size_t waiting_calls = 0;
};

struct RegistrationGauges {
  std::size_t registrations = 0;
  std::uint64_t bytes = 0;
  std::uint64_t max_bytes = 0;
  std::array<std::uint64_t, MemoryRejections::kReasons.size()> rejections = {};
};

// The sources of the pages. The functions are called on the pages' thread, and must not block.
struct AdminSources {
  Service* service = nullptr;
  std::uint64_t memory_budget_bytes = 0;  // memory of the host
  std::function<PoolGauges()> pool;
  std::function<RegistrationGauges()> registrations;
  std::function<ConnectionCounts()> connections;
  std::function<std::int64_t()> log_lines_dropped;
  std::function<std::int64_t()> grpc_errors;  // that gRPC has logged
  std::function<std::vector<Reload>()> reloads;
  std::function<std::optional<absl::Time>()> certificate_expiry;  // of the one in use; none without TLS
  std::function<std::optional<absl::Time>()> authorities_expiry;  // of --tls_client_ca; none without it
  std::vector<std::string> addresses;                             // that the service listens on
  std::vector<std::pair<std::string, std::string>> flags;         // name and value
};

class Admin : public CallObserver {
 public:
  // Serves once it has returned, as a server that is starting. `address` is host:port, with port 0 for a free
  // one. INVALID_ARGUMENT with the address and the reason if listening there is not possible, UNAVAILABLE if
  // the address may become available later, RESOURCE_EXHAUSTED if there is no thread.
  static absl::StatusOr<std::unique_ptr<Admin>> Open(const std::string& address);

  // The service accepts calls from now on. Everything that the sources refer to must outlive the Admin.
  // RESOURCE_EXHAUSTED if there is no thread.
  absl::Status Attach(AdminSources sources);

  // The address, with the port that was bound.
  const std::string& address() const { return server_->address(); }
  // Whether only processes on this machine can read it.
  bool is_local() const { return server_->is_local(); }

  void OnBegin(const std::shared_ptr<const LiveCall>& call) override { table_.Add(call); }
  void OnEnd(const std::shared_ptr<const LiveCall>& call, const CallRecord& record) override;

 private:
  Admin() = default;

  HttpResponse Answer(const std::string& path) const;
  // Starting on a GPU may take a minute: during this time the server is up, but not ready.
  std::string MetricsOfStart() const;
  std::string Metrics() const;
  bool is_ready() const { return attached_ && sources_.service->is_serving(); }

  CallMetrics calls_;
  CallTable table_{MethodNames()};
  AdminSources sources_;                 // constant once attached_
  std::optional<DeviceSampler> device_;  // likewise
  std::atomic<bool> attached_ = false;
  std::unique_ptr<HttpServer> server_;  // the last: its thread reads the others
};

}  // namespace warpfold::server
