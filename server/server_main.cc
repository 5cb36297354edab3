// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
#include "server/server_main.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "server/admin/admin.h"
#include "server/admin/http_server.h"
#include "server/allow_file.h"
#include "server/call_log.h"
#include "server/core/crossover.h"
#include "server/core/service.h"
#include "server/logging.h"
#include "server/memory/memory_socket.h"
#include "server/memory_budget.h"
#include "server/memory_return.h"
#include "server/process.h"
#include "server/rpc/receive_arena.h"
#include "server/rpc/rpc_server.h"
#include "server/tls_keys.h"
#include "server/tls_renewal.h"
#include "server/version.h"

namespace warpfold::server {
namespace {

constexpr int kDrained = 0;
constexpr int kBadFlags = 2;
constexpr int kNotThere = 3;  // the device, memory or address that the flags ask for; it may come
constexpr int kDeviceFailed = 4;

constexpr absl::Duration kOneRequest = absl::Milliseconds(200);

// How long the answers to calls in progress may take once the device has failed.
constexpr absl::Duration kLastAnswers = absl::Milliseconds(250);
constexpr absl::Duration kDriversLastAnswer = absl::Seconds(1);

// Of all slots together.
std::size_t SlotBytes(kernels::Backend& backend) {
  return backend.slots().size() * backend.slots().front()->staging().size();
}

Limits LimitsOf(const Flags& flags, kernels::Backend& backend) {
  return {.max_stream_bytes = flags.max_stream_bytes,
          .max_concurrent_reductions = flags.max_concurrent_reductions,
          .call = {.idle = absl::Seconds(flags.idle_timeout_seconds),
                   .duration = absl::Seconds(flags.max_stream_seconds)},
          .slots = backend.slots().size(),
          .slot_bytes = backend.slots().front()->staging().size()};
}

// Takes the memory for resident arrays now, as much of each device: later there might be none.
absl::Status OpenResidentArrays(const Flags& flags, Service& service) {
  if (flags.resident_bytes == 0) return absl::OkStatus();
  const int devices = service.backend.devices();
  std::vector<std::unique_ptr<kernels::Memory>> memories;
  for (int device = 0; device < devices; ++device) {
    absl::StatusOr<std::unique_ptr<kernels::Memory>> memory =
        service.backend.Allocate(device, flags.resident_bytes / static_cast<std::uint64_t>(devices));
    if (!memory.ok()) return memory.status();
    memories.push_back(*std::move(memory));
  }
  ResidentArrays::Limits limits;
  limits.owner_bytes = flags.resident_owner_bytes > 0 ? flags.resident_owner_bytes : flags.resident_bytes;
  service.residents.Open(std::move(memories), limits);
  return absl::OkStatus();
}

// Has gRPC receive into memory that the device reads, where it does: twice what slots hold, since messages
// come while others lie in slots. Without it, arrays are copied.
void OpenReceiving(kernels::Backend& backend) {
  if (!backend.takes_pieces()) return;
  if (!CanUseForReceiving()) {
    return Log(LogLevel::kWarning,
               "arrays are copied on their way: this release of gRPC receives into its own memory");
  }
  absl::StatusOr<std::unique_ptr<ReceiveArena>> arena = ReceiveArena::Create(2 * SlotBytes(backend));
  const absl::Status status = arena.ok() ? backend.OpenPieces((*arena)->memory()) : arena.status();
  if (!status.ok()) {
    return Log(LogLevel::kWarning, absl::StrCat("arrays are copied on their way: ", status.message()));
  }
  UseForReceiving(*std::move(arena));
}

// How much memory of the host the server may come to hold. INVALID_ARGUMENT if it may not have so much.
absl::StatusOr<MemoryBudget> CheckMemory(const Flags& flags, kernels::Backend& backend) {
  const bool takes_pieces = backend.takes_pieces();
  const auto devices = static_cast<std::size_t>(backend.devices());
  const MemoryBudget budget = BudgetOf(flags, {.gpus = backend.name() == "cuda" ? backend.devices() : 0,
                                               .slot_bytes = SlotBytes(backend),
                                               .receive_bytes = takes_pieces ? 2 * SlotBytes(backend) : 0,
                                               .shards = ShardCount(backend.slots().size() / devices)});
  if (absl::Status status = CheckBudget(budget, flags, ControlGroupLimit()); !status.ok()) return status;
  return budget;
}

absl::StatusOr<std::unique_ptr<MemorySocket>> OpenMemorySocket(const Flags& flags, Service& service) {
  MemorySocketOptions options = {
      .path = flags.memory_socket,
      .users = {flags.memory_socket_users.begin(), flags.memory_socket_users.end()},
      .max_registered_bytes = flags.max_registered_bytes,
      .idle = absl::Seconds(flags.idle_timeout_seconds),
  };
  if (service.backend.name() == "cuda") {
    const std::string device = service.backend.device();  // "cuda:0,cuda:1 NVIDIA H200"
    options.prober_command = {"/proc/self/exe",
                              absl::StrCat(kProbeMemoryFlag, device.substr(0, device.find(' ')))};
  }
  return MemorySocket::Open(options, service.backend, service.memories);
}

// Tells several observers of each call.
class Observers : public CallObserver {
 public:
  void Add(CallObserver* observer) { observers_.push_back(observer); }

  void OnBegin(const std::shared_ptr<const LiveCall>& call) override {
    for (CallObserver* const observer : observers_) observer->OnBegin(call);
  }
  void OnEnd(const std::shared_ptr<const LiveCall>& call, const CallRecord& record) override {
    for (CallObserver* const observer : observers_) observer->OnEnd(call, record);
  }

 private:
  std::vector<CallObserver*> observers_;
};

// Null without the flag.
absl::StatusOr<std::unique_ptr<Admin>> OpenAdmin(const Flags& flags) {
  if (flags.admin_listen.empty()) return nullptr;
  absl::StatusOr<std::unique_ptr<Admin>> admin = Admin::Open(flags.admin_listen);
  if (admin.ok()) {
    if (!(*admin)->is_local())
      Log(LogLevel::kWarning, absl::StrCat("--admin_listen=", flags.admin_listen,
                                           ": other machines may read metrics, peers and identities there"));
    return admin;
  }
  return absl::Status(admin.status().code(), absl::StrCat("--admin_listen: ", admin.status().message()));
}

AdminSources SourcesOf(const Flags& flags, Service& service, const RpcServer& server,
                       const MemorySocket* memory_socket, const TlsRenewal& tls_renewal,
                       const AllowFile& allow_file) {
  return {.service = &service,
          .pool =
              [&server] {
                const SlotCounts counts = server.published_slots();
                return PoolGauges{.slots_free = counts.free,
                                  .slots_in_flight = counts.in_flight,
                                  .waiting_calls = counts.waiting};
              },
          .registrations =
              [memory_socket] {
                if (memory_socket == nullptr) return RegistrationGauges();
                const Registrar& registrar = memory_socket->registrar();
                return RegistrationGauges{.registrations = registrar.registrations(),
                                          .bytes = registrar.registered_bytes()};
              },
          .connections = [&server] { return server.connections(); },
          .log_lines_dropped = LogLinesDropped,
          .grpc_errors = GrpcErrors,
          .reloads =
              [&flags, &tls_renewal, &allow_file] {
                std::vector<Reload> reloads;
                if (!flags.tls_cert.empty()) reloads.push_back(tls_renewal.last_reload());
                if (!flags.allow.empty()) reloads.push_back(allow_file.last_reload());
                return reloads;
              },
          .certificate_expiry = [&tls_renewal] { return tls_renewal.expiry(); },
          .addresses = server.addresses(),
          .flags = flags.all};
}

// What the pages and the memory socket may open while the server serves.
std::size_t OtherDescriptors(const Flags& flags) {
  return (flags.admin_listen.empty() ? 0 : HttpServer::kDescriptors) +
         (flags.memory_socket.empty() ? 0 : MemorySocket::kDescriptors);
}

RpcServerOptions OptionsOf(const Flags& flags, const std::optional<TlsKeys>& tls,
                           const MemoryBudget& memory) {
  return {.listen = flags.listen,
          .tls = tls,
          .allow_insecure = flags.allow_insecure,
          .max_connections = flags.max_connections,
          .other_descriptors = OtherDescriptors(flags),
          .received_bytes = memory.received(),
          .channelz = flags.channelz};
}

// What those who started the process wait for.
void SayReady(const RpcServer& server, const Admin* admin, const Service& service,
              const MemoryBudget& memory) {
  std::cout << "READY listen=" << absl::StrJoin(server.addresses(), ",");
  if (admin != nullptr) std::cout << " admin=" << admin->address();
  std::cout << " device=" << service.backend.device() << std::endl;
  TellManager("READY=1");
  Log(LogLevel::kInfo, absl::StrCat("warpfold-server ", kVersion, " serves on ", service.backend.device()));
  Log(LogLevel::kInfo, ToText(memory));
  const Crossovers::WarmUp& warm_up = service.crossovers.warm_up();
  if (warm_up.operators == 0) return;
  Log(LogLevel::kInfo,
      absl::StrCat("ran ", warm_up.operators, " operators over their types in ",
                   absl::ToInt64Milliseconds(warm_up.took), " ms; the slowest first call took ",
                   absl::ToDoubleMilliseconds(warm_up.slowest), " ms more: ", warm_up.slowest_operator));
}

// The flags that the device could not be opened with: of those that say how much of it is wanted, the ones
// that were given.
std::string DeviceFlags(const Flags& flags, const absl::Status& why) {
  std::string text = absl::StrCat("--device=", flags.device);
  if (!absl::IsResourceExhausted(why)) return text;
  const std::pair<const char*, std::uint64_t> amounts[] = {
      {"slots", flags.slots}, {"slot_bytes", flags.slot_bytes}, {"cpu_threads", flags.cpu_threads}};
  for (const auto& [name, amount] : amounts) {
    if (amount > 0) absl::StrAppend(&text, " --", name, "=", amount);
  }
  return text;
}

// Says why the server does not start, and returns the exit code.
int Refuse(int exit_code, absl::string_view why) {
  Log(LogLevel::kCritical, why);
  return exit_code;
}

int RefuseFor(const absl::Status& status) {
  const bool may_come = absl::IsResourceExhausted(status) || absl::IsUnavailable(status);
  return Refuse(may_come ? kNotThere : kBadFlags, status.message());
}

// Ends the process without running what would touch the device.
[[noreturn]] void EndAfterFault(RpcServer& server, const Flags& flags) {
  server.WaitUntilIdle(kLastAnswers);
  absl::SleepFor(kLastAnswers);
  server.StopListening();
  if (!flags.memory_socket.empty()) unlink(flags.memory_socket.c_str());
  FlushLog();
  std::_Exit(kDeviceFailed);
}

// Drains the server, unless the device fails meanwhile, which would keep a drain from ever ending, or a
// second signal asks for an end at once.
void DrainUnlessFaulted(RpcServer& server, const Flags& flags) {
  std::atomic<bool> drained = false;
  std::thread drain([&] {
    server.Drain(absl::Seconds(flags.drain_seconds));
    drained = true;
  });
  const auto over = [&] { return drained || server.faulted(); };
  const absl::Time begin = absl::Now();
  bool asked_again = AwaitEnd(over);
  // Who signals a process and then its group, as timeout(1) does, asks once.
  while (asked_again && absl::Now() - begin < kOneRequest) asked_again = AwaitEnd(over);
  if (asked_again) {
    Log(LogLevel::kWarning, "stopped while draining: a second signal");
    FlushLog();
    EndBySignal();
  }
  if (!drained) EndAfterFault(server, flags);
  drain.join();
}

// Does what has to be done often while the server serves. Returns whether the device has failed.
bool LookAfter(RpcServer& server, CallLog& call_log, MemoryReturn& memory_return, TlsRenewal& tls_renewal,
               AllowFile& allow_file, absl::Time now) {
  call_log.SayLeftOut();
  allow_file.Look(now);
  memory_return.Look(now);
  if (const std::optional<TlsKeys> keys = tls_renewal.Look(now); keys.has_value()) {
    server.UseTls(*keys);
    tls_renewal.Used(*keys);
  }
  return server.faulted();
}

// Ends the process where the device does not reduce.
Crossovers MeasureCrossovers(const Flags& flags, Service& service) {
  absl::StatusOr<Crossovers> crossovers = Crossovers::Measure(service.backend, service.clock);
  if (crossovers.ok()) return *std::move(crossovers);
  Log(LogLevel::kCritical, absl::StrCat("--device=", flags.device, ": ", crossovers.status().message()));
  // Whatever frees the device's memory would wait for it.
  FlushLog();
  std::_Exit(kNotThere);
}

// To be called before what the pages read is gone. Ends the process where the device's driver hangs.
void EndAdmin(std::unique_ptr<Admin> admin) {
  if (admin->EndSampling(kDriversLastAnswer)) return;
  Log(LogLevel::kWarning, "the device's driver does not answer: not waiting for it");
  FlushLog();
  std::_Exit(kDrained);
}

int Run(const Flags& flags, const OpenBackend& open_backend) {
  TlsRenewal tls_renewal(flags);
  const absl::StatusOr<std::optional<TlsKeys>> tls = ReadTlsKeys(flags);
  if (!tls.ok()) return Refuse(kBadFlags, tls.status().message());
  if (tls->has_value()) tls_renewal.Used(**tls);
  absl::StatusOr<std::unique_ptr<Admin>> admin = OpenAdmin(flags);
  if (!admin.ok()) return RefuseFor(admin.status());
  std::optional<SignalsDuringStart> signals(std::in_place);
  // Where the system has not so much it would end the process, and not say why.
  if (absl::Status status = CheckSlots(flags, AvailableMemory()); !status.ok()) return RefuseFor(status);
  const absl::StatusOr<std::unique_ptr<kernels::Backend>> backend = open_backend(flags);
  if (!backend.ok()) {
    return Refuse(kNotThere,
                  absl::StrCat(DeviceFlags(flags, backend.status()), ": ", backend.status().message()));
  }
  const absl::StatusOr<MemoryBudget> memory = CheckMemory(flags, **backend);
  if (!memory.ok()) return Refuse(kBadFlags, memory.status().message());
  OpenReceiving(**backend);
  Service service(**backend, LimitsOf(flags, **backend), MonotonicClock());
  AllowFile allow_file(flags.allow, service.access);
  if (absl::Status status = allow_file.Use(); !status.ok()) return Refuse(kBadFlags, status.message());
  CallLog call_log(service.clock);
  service.reflection = flags.reflection;
  Observers observers;
  observers.Add(&call_log);
  if (*admin != nullptr) observers.Add(admin->get());
  service.observer = &observers;
  service.crossovers = MeasureCrossovers(flags, service);
  if (absl::Status status = OpenResidentArrays(flags, service); !status.ok()) {
    return Refuse(kNotThere, absl::StrCat("--resident_bytes=", flags.resident_bytes, ": ", status.message()));
  }
  std::unique_ptr<MemorySocket> memory_socket;
  if (!flags.memory_socket.empty()) {
    absl::StatusOr<std::unique_ptr<MemorySocket>> socket = OpenMemorySocket(flags, service);
    if (!socket.ok()) return Refuse(kBadFlags, absl::StrCat("--memory_socket: ", socket.status().message()));
    memory_socket = *std::move(socket);
  }

  signals.reset();  // who can connect is drained
  const auto server = RpcServer::Start(service, OptionsOf(flags, *tls, *memory));
  if (absl::IsResourceExhausted(server.status())) {
    return Refuse(kNotThere, absl::StrCat("--slots=", flags.slots, ": ", server.status().message()));
  }
  if (!server.ok()) return RefuseFor(server.status());
  if (*admin != nullptr) {
    absl::Status attached =
        (*admin)->Attach(SourcesOf(flags, service, **server, memory_socket.get(), tls_renewal, allow_file));
    if (!attached.ok()) return Refuse(kNotThere, absl::StrCat("--admin_listen: ", attached.message()));
  }
  SayReady(**server, admin->get(), service, *memory);

  MemoryReturn memory_return(service.clock(), memory->total());
  const auto failed = [&] {
    return LookAfter(**server, call_log, memory_return, tls_renewal, allow_file, service.clock());
  };
  if (!AwaitEnd(failed)) EndAfterFault(**server, flags);
  TellManager("STOPPING=1");
  Log(LogLevel::kInfo,
      absl::StrCat("draining: ", (*server)->reductions_in_progress(), " reductions in progress"));
  DrainUnlessFaulted(**server, flags);
  call_log.SayLeftOut(/*all=*/true);
  Log(LogLevel::kInfo, "drained");
  if (*admin != nullptr) EndAdmin(*std::move(admin));
  return kDrained;
}

}  // namespace

int ServerMain(int argc, const char* const* argv, const OpenBackend& open_backend) {
  IgnoreSignals();
  TuneAllocator();
  ChoosePolling();
  LeaveLocksUnchecked();
  Flags flags;
  std::ostringstream complaint;
  const std::optional<int> no_start = ParseFlags(argc, argv, &flags, std::cout, complaint);
  if (no_start.has_value() && flags.log_format == LogFormat::kText) {
    std::cerr << complaint.str();
    return *no_start;
  }
  HoldSignals();
  RaiseFileLimit();
  try {
    SetUpLogging(flags.log_format, flags.log_level);
  } catch (const std::system_error&) {
    std::cerr << "the system allows no thread for the log" << std::endl;
    return kNotThere;
  }
  const int exit_code = no_start.has_value()
                            ? Refuse(*no_start, absl::StripTrailingAsciiWhitespace(complaint.str()))
                            : Run(flags, open_backend);
  FlushLog();
  return exit_code;
}

}  // namespace warpfold::server
