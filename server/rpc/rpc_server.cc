// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/rpc_server.h"

#include <grpc/grpc.h>
#include <grpcpp/ext/channelz_service_plugin.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"
#include "proto/shared/processors.h"
#include "server/core/limits.h"
#include "server/log/logging.h"
#include "server/net/watched_sockets.h"
#include "server/net/watched_tls.h"
#include "server/process/process.h"
#include "server/rpc/goaway.h"
#include "server/rpc/transport_settings.h"

namespace warpfold::server {
namespace {

// Calls to the device take microseconds, and the slowest, those that wait for the driver, less than a second.
constexpr absl::Duration kLongestDeviceCall = absl::Seconds(15);
// A shard's thread waits for events, at most 5 s, and for nothing else that takes longer than the device.
constexpr absl::Duration kLongestHoldUp = absl::Seconds(15);

// How soon an overdue call or a lost device is noticed.
constexpr auto kWatchInterval = std::chrono::milliseconds(50);
constexpr auto kDrainCheckInterval = std::chrono::milliseconds(10);
// How long gRPC may take to send the last answers before it closes connections.
constexpr auto kLastAnswers = std::chrono::milliseconds(500);

constexpr std::size_t kMaxShards = 16;

// What gRPC opens besides connections.
constexpr std::size_t kDescriptorsOfAShard = 2;
constexpr std::size_t kOtherDescriptors = 16;

// How many connections to accept: the requested number, if there are enough descriptors for it.
absl::StatusOr<std::size_t> MaxConnections(const RpcServerOptions& options, int shards) {
  const std::size_t others =
      kDescriptorsOfAShard * static_cast<std::size_t>(shards) + kOtherDescriptors + options.other_descriptors;
  const std::size_t free = FreeDescriptors();
  if (free <= others) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max_connections: the limit on open files leaves room for none: ", others,
                     " more files are for other uses, and ", free, " are left"));
  }
  const std::size_t room = free - others;
  if (options.max_connections == 0) return std::min(room, kDefaultConnections);
  if (options.max_connections <= room) return options.max_connections;
  return absl::InvalidArgumentError(absl::StrCat("--max_connections=", options.max_connections,
                                                 ": the limit on open files leaves room for ", room));
}

absl::StatusOr<std::vector<Listener>> OpenListeners(const RpcServerOptions& options) {
  std::vector<Listener> listeners;
  for (const std::string& address : options.listen) {
    absl::StatusOr<Listener> listener = Listener::Resolve(address);
    if (!listener.ok()) return listener.status();
    listeners.push_back(*std::move(listener));
  }
  options.before_listening();
  for (std::size_t i = 0; i < listeners.size(); ++i) {
    if (absl::Status status = listeners[i].Listen(); !status.ok()) return status;
    if (options.tls.has_value() || options.allow_insecure || listeners[i].is_local()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(options.listen[i], ": other machines can reach it, and nothing is encrypted: give ",
                     "--tls_cert and --tls_key, or --allow_insecure"));
  }
  return listeners;
}

std::size_t SlotsOfEachDevice(kernels::Backend& backend) {
  return backend.slots().size() / static_cast<std::size_t>(backend.devices());
}

// If gRPC cannot create one of its own threads, it waits forever. It has a pool with as many threads as the
// machine has processors, but at least 2 and at most 32.
int ThreadsOfServing(int shards) {
  constexpr int kOfGrpcsTimersAndCallbacks = 4;
  // The acceptor, the watchdog, those that read files and sample devices, and the upkeep of the process.
  constexpr int kOwn = 5;
  constexpr int kStillCounted = 2;  // the system counts a thread for a moment after it has ended
  const int processors = static_cast<int>(sysconf(_SC_NPROCESSORS_CONF));
  return std::clamp(processors, 2, 32) + kOfGrpcsTimersAndCallbacks + shards + kOwn + kStillCounted;
}

}  // namespace

int ShardCount(std::size_t slots) {
  const auto cores = std::clamp<std::size_t>(static_cast<std::size_t>(ProcessorCount()), 1, kMaxShards);
  return static_cast<int>(std::clamp<std::size_t>(slots, 1, cores));
}

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(Service& service,
                                                            const RpcServerOptions& options) {
  std::unique_ptr<RpcServer> server(new RpcServer(service));
  if (absl::Status status = server->Listen(options); !status.ok()) return status;
  if (absl::Status status = server->Serve(); !status.ok()) return status;
  return server;
}

RpcServer::~RpcServer() {
  if (server_ != nullptr) Drain(absl::ZeroDuration());
}

absl::Status RpcServer::Listen(const RpcServerOptions& options) {
  const int shards = ShardCount(SlotsOfEachDevice(service_.backend));
  if (absl::Status status = CheckThreads(ThreadsOfServing(shards)); !status.ok()) return status;
  absl::StatusOr<std::vector<Listener>> listeners = OpenListeners(options);
  if (!listeners.ok()) {
    return absl::Status(listeners.status().code(), absl::StrCat("--listen: ", listeners.status().message()));
  }
  for (const Listener& listener : *listeners) addresses_.push_back(listener.address());
  const absl::StatusOr<std::size_t> max_connections = MaxConnections(options, shards);
  if (!max_connections.ok()) return max_connections.status();
  // This is never undone: giving back gRPC's last reference, such as that of the quota's object, would shut
  // it down and wait for its threads.
  grpc_init();
  // This adds channelz to every server that the process builds from now on.
  if (options.channelz) grpc::channelz::experimental::InitChannelzService();
  grpc::ServerBuilder builder;
  ApplyTransportSettings(builder, service_.limits.max_concurrent_reductions, options.received_bytes);
  builder.RegisterAsyncGenericService(&methods_);
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues;
  for (int i = 0; i < shards; ++i) queues.push_back(builder.AddCompletionQueue());
  constexpr auto kFromFd = grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD;
  plain_entrance_ =
      builder.experimental().AddExternalConnectionAcceptor(kFromFd, grpc::InsecureServerCredentials());
  if (options.tls.has_value()) {
    tls_ = std::make_shared<TlsCredentials>(*options.tls);
    tls_entrance_ = builder.experimental().AddExternalConnectionAcceptor(kFromFd, tls_);
  }
  server_ = builder.BuildAndStart();
  MakeShards(std::move(queues));
  if (server_ == nullptr) return absl::InvalidArgumentError("--tls_*: the keys are not usable");
  MakeAcceptor(*std::move(listeners), *max_connections);
  return absl::OkStatus();
}

void RpcServer::MakeAcceptor(std::vector<Listener> listeners, std::size_t max_connections) {
  acceptor_ = std::make_unique<Acceptor>(
      std::move(listeners), max_connections, [this](const Listener& listener, int socket, int descriptor) {
        const bool is_plain = tls_ == nullptr || listener.is_unix();
        grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
        connection.listener_fd = socket;
        connection.fd = descriptor;
        if (is_plain) {
          WatchSocket(descriptor);
          plain_entrance_->HandleNewConnection(&connection);
        } else {
          const TlsHandOver hand_over(descriptor);
          tls_entrance_->HandleNewConnection(&connection);
        }
      });
}

void RpcServer::MakeShards(std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues) {
  std::vector<std::vector<kernels::Slot*>> slots(queues.size());
  // Every shard gets at least one slot of each device, since its arrays may lie on any of them.
  std::vector<std::size_t> next(static_cast<std::size_t>(service_.backend.devices()));
  for (const auto& slot : service_.backend.slots()) {
    slots[next[static_cast<std::size_t>(slot->device())]++ % slots.size()].push_back(slot.get());
  }
  for (std::size_t i = 0; i < queues.size(); ++i) {
    shards_.push_back(std::make_unique<RpcShard>(service_, methods_, slots[i], std::move(queues[i])));
  }
}

absl::Status RpcServer::Serve() {
  try {
    for (const auto& shard : shards_) shard->Start();
    watchdog_ = std::thread([this] { Watch(); });
    acceptor_->Start();  // the last one: from now on there are calls
  } catch (const std::system_error&) {
    StopListening();
    stop_watchdog_ = true;
    if (watchdog_.joinable()) watchdog_.join();
    for (const auto& shard : shards_) {
      if (shard->has_thread()) shard->PostAndWait([&shard] { shard->StopAccepting(); });
    }
    server_->Shutdown(std::chrono::system_clock::now());
    for (const auto& shard : shards_) shard->Join();
    server_ = nullptr;
    return absl::ResourceExhaustedError(
        absl::StrCat("the system allows too few threads for ", shards_.size(), " shards"));
  }
  return absl::OkStatus();
}

void RpcServer::Watch() {
  while (!stop_watchdog_) {
    for (const auto& shard : shards_) {
      const absl::Time now = service_.clock();
      if (shard->core().slots().device_calls().LastsFor(now) >= kLongestDeviceCall) {
        service_.device.Lose("a call to the device does not return");
      } else if (shard->HeldUpFor(now) >= kLongestHoldUp) {
        service_.device.Lose("a thread that serves calls is held up");
      }
    }
    CheckForFault();
    std::this_thread::sleep_for(kWatchInterval);
  }
}

void RpcServer::CheckForFault() {
  if (faulted_) return;
  const absl::Status fault = service_.device.fault();
  if (fault.ok()) return;
  Log(LogLevel::kCritical, absl::StrCat("the device failed: ", fault.message()));
  StopServing();
  service_.admission.Close(fault);
  StopAll(fault);
  faulted_ = true;
}

void RpcServer::StopServing() {
  service_.serving = false;
  for (const auto& shard : shards_) {
    shard->Post([&core = shard->core()] { core.OnHealthChanged(); });
  }
}

void RpcServer::StopAll(const absl::Status& why) {
  for (const auto& shard : shards_) {
    shard->Post([&core = shard->core(), why] { core.StopAll(why); });
  }
}

void RpcServer::StopListening() {
  std::call_once(stopped_listening_, [this] { acceptor_->Stop(); });
}

void RpcServer::UseTls(const TlsKeys& keys) {
  if (tls_ != nullptr) tls_->Use(keys);
}

std::shared_ptr<grpc::Channel> RpcServer::InProcessChannel(const grpc::ChannelArguments& arguments) {
  return server_->InProcessChannel(arguments);
}

SlotCounts RpcServer::slots() {
  SlotCounts counts;
  for (const auto& shard : shards_) {
    shard->PostAndWait([&counts, &slots = shard->core().slots()] {
      counts.free += slots.free();
      counts.in_flight += slots.in_flight();
      counts.waiting += slots.waiting();
    });
  }
  return counts;
}

SlotCounts RpcServer::published_slots() const {
  SlotCounts counts;
  for (const auto& shard : shards_) {
    const ShardGauges& gauges = shard->gauges();
    counts.free += gauges.slots_free.load(std::memory_order_relaxed);
    counts.in_flight += gauges.slots_in_flight.load(std::memory_order_relaxed);
    counts.waiting += gauges.waiting.load(std::memory_order_relaxed);
  }
  return counts;
}

bool RpcServer::WaitUntil(const std::function<bool(absl::Time)>& condition, absl::Time deadline) {
  while (!condition(service_.clock())) {
    if (service_.clock() >= deadline) return false;
    std::this_thread::sleep_for(kDrainCheckInterval);
  }
  return true;
}

// A call that arrives while gRPC shuts down would end with CANCELLED, which few clients but ours retry. No
// such call can arrive when nobody is connected.
void RpcServer::EndAllUntilDisconnected(const absl::Status& why) {
  const auto deadline = std::chrono::steady_clock::now() + kLastAnswers;
  do {
    for (const auto& shard : shards_) shard->PostAndWait([&] { shard->core().EndAll(why); });
    if (!HasOpenConnections(*server_)) return;
    std::this_thread::sleep_for(kDrainCheckInterval);
  } while (std::chrono::steady_clock::now() < deadline);
}

// Nothing can be posted to a queue that has been shut down.
void RpcServer::WaitUntilShardsAreIdle() {
  for (const auto& shard : shards_) {
    bool busy = true;
    while (true) {
      shard->PostAndWait([&busy, &core = shard->core()] { busy = core.is_busy(); });
      if (!busy) break;
      std::this_thread::sleep_for(kDrainCheckInterval);
    }
  }
}

void RpcServer::Drain(absl::Duration grace) {
  const absl::Status draining = kernels::Error(absl::StatusCode::kUnavailable, reason::kDraining,
                                               "the server is shutting down: use another");
  StopServing();
  // A client that is rejected connects anew, and should not find this server behind a name of several
  // servers.
  StopListening();
  service_.admission.CloseToReductions(draining);
  Admission& admission = service_.admission;
  const absl::Time deadline = service_.clock() + grace;
  // A client that sends parts of an array needs its connections for the next parts, and for the Merge.
  WaitUntil([&](absl::Time now) { return !admission.AwaitsCalls(now); }, deadline);
  SendGoaways(*server_);
  const bool quiet = WaitUntil([&](absl::Time now) { return admission.IsQuiet(now); }, deadline);
  service_.admission.Close(draining);
  if (!quiet && in_progress() > 0) {
    Log(LogLevel::kWarning,
        absl::StrCat("stopping ", in_progress(), " reductions and merges that did not finish in time"));
    StopAll(draining);
    service_.admission.WaitUntilEmpty();
  }
  EndAllUntilDisconnected(draining);
  for (const auto& shard : shards_) shard->PostAndWait([&shard] { shard->StopAccepting(); });
  server_->Shutdown(std::chrono::system_clock::now() + kLastAnswers);
  service_.admission.WaitUntilEmpty();
  WaitUntilShardsAreIdle();
  stop_watchdog_ = true;
  watchdog_.join();
  for (const auto& shard : shards_) shard->Join();
  server_ = nullptr;
}

}  // namespace warpfold::server
