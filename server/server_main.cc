// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/server_main.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "proto/shared/steady_time.h"
#include "proto/shared/system_memory.h"
#include "server/admin/admin.h"
#include "server/core/calls/service.h"
#include "server/core/slots/crossover.h"
#include "server/files/allow_file.h"
#include "server/files/tls_keys.h"
#include "server/files/tls_renewal.h"
#include "server/log/call_log.h"
#include "server/log/log_queue.h"
#include "server/log/logging.h"
#include "server/memory/memfd_sealer.h"
#include "server/memory/memory_socket.h"
#include "server/opening.h"
#include "server/process/memory_budget.h"
#include "server/process/memory_return.h"
#include "server/process/periodic_thread.h"
#include "server/process/process.h"
#include "server/process/process_end.h"
#include "server/rpc/rpc_server.h"
#include "server/version.h"

namespace warpfold::server {
namespace {

constexpr int kDrained = 0;
constexpr int kBadFlags = 2;
constexpr int kNotThere = 3;  // the device, memory or address that the flags name; it may come
constexpr int kDeviceFailed = 4;

// How long the answers to calls in progress may take once the device has failed.
constexpr absl::Duration kLastReports = absl::Milliseconds(250);
// How long the process may take to clean up when nobody is served anymore: a driver, or the file system of a
// key, may hang.
constexpr absl::Duration kPuttingAway = absl::Seconds(5);
// How long a drain may last beyond --drain_seconds. Within that time a device or a thread that hangs is
// noticed, which ends the process in another way.
constexpr absl::Duration kLongestEnd = absl::Seconds(20);
// How long the start waits for the reader of standard output.
constexpr absl::Duration kReadersTime = absl::Milliseconds(250);
constexpr std::size_t kMaxOutputBytes = std::size_t{1} << 20;

// Notifies several observers of each call.
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

// Writes the line that those who started the process wait for. It is the first line if somebody reads it, and
// nothing waits for long if nobody does.
void SayReady(LogQueue& output, const RpcServer& server, const Admin* admin, const Service& service,
              const MemoryBudget& memory) {
  std::string line = absl::StrCat("READY listen=", absl::StrJoin(server.addresses(), ","));
  if (admin != nullptr) absl::StrAppend(&line, " admin=", admin->address());
  absl::StrAppend(&line, " device=", service.backend.device(), "\n");
  output.Push([line] { return line; }, line.size());
  const bool is_taken = output.Flush(kReadersTime) && output.dropped() == 0;
  TellManager("READY=1");
  Log(LogLevel::kInfo, absl::StrCat("warpfold-server ", kVersion, " serves on ", service.backend.device(),
                                    " at ", absl::StrJoin(server.addresses(), ",")));
  if (!is_taken) Log(LogLevel::kWarning, "standard output has not taken the line READY");
  Log(LogLevel::kInfo, ToText(memory));
  const Crossovers::WarmUp& warm_up = service.crossovers.warm_up();
  if (warm_up.operators == 0) return;
  Log(LogLevel::kInfo,
      absl::StrCat("ran ", warm_up.operators, " operators over their types in ",
                   absl::ToInt64Milliseconds(warm_up.took), " ms; the slowest first call took ",
                   absl::ToDoubleMilliseconds(warm_up.slowest), " ms more: ", warm_up.slowest_operator,
                   "; and ", warm_up.other_calls, " other calls in ",
                   absl::ToInt64Milliseconds(warm_up.others_took), " ms"));
}

// The flags with which the device could not be opened: of those that say how much of it is wanted, only the
// ones that were given.
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

// Says why the server does not start, and returns the exit code. Nothing that hangs delays the end.
int Refuse(ProcessEnd& end, int exit_code, absl::string_view why) {
  Log(LogLevel::kCritical, why);
  end.Unwatch();  // what was watched may be gone from now on
  end.EndWithin(kPuttingAway, exit_code);
  return exit_code;
}

int RefuseFor(ProcessEnd& end, const absl::Status& status) {
  const bool may_come = absl::IsResourceExhausted(status) || absl::IsUnavailable(status);
  return Refuse(end, may_come ? kNotThere : kBadFlags, status.message());
}

// Ends the process without running what would touch the device.
[[noreturn]] void EndAfterFault(RpcServer& server, const MemorySocket* memory_socket) {
  server.WaitUntilIdle(kLastReports);
  absl::SleepFor(kLastReports);
  server.StopListening();
  if (memory_socket != nullptr) memory_socket->RemoveFile();
  FlushLog();
  std::_Exit(kDeviceFailed);
}

// Takes new keys and a new list of callers into use.
void ReloadChangedFiles(RpcServer& server, TlsRenewal& tls_renewal, AllowFile& allow_file, absl::Time now) {
  allow_file.ReloadIfChanged(now);
  if (const std::optional<TlsKeys> keys = tls_renewal.ReadIfChanged(now); keys.has_value()) {
    server.UseTls(*keys);
    tls_renewal.Used(*keys);
  }
  tls_renewal.WarnOfExpiry();
}

// Ends the process if the device does not reduce.
Crossovers MeasureCrossovers(const Flags& flags, Service& service) {
  absl::StatusOr<Crossovers> crossovers = Crossovers::Measure(service.backend, service.clock);
  if (crossovers.ok()) return *std::move(crossovers);
  Log(LogLevel::kCritical, absl::StrCat("--device=", flags.device, ": ", crossovers.status().message()));
  // Anything that frees the device's memory would wait for the device.
  FlushLog();
  std::_Exit(kNotThere);
}

// Work that is done now and then, from before the server is ready until it is drained: clients continue to
// send what they have begun. A thread that cannot be made must be noticed before anybody relies on the
// server.
class Upkeep {
 public:
  Upkeep(CallLog& call_log, const MemoryBudget& memory, const Clock& clock)
      : memory_return_(clock(), memory), thread_([this, &call_log, &clock] {
          call_log.SayLeftOut();
          SayLinesLeftOut();
          memory_return_.TrimIfLarge(clock());
        }) {}

 private:
  MemoryReturn memory_return_;
  const PeriodicThread thread_;
};

// Serves until a signal asks for the end, and drains.
void Serve(ProcessEnd& end, const Flags& flags, RpcServer& server, CallLog& call_log,
           std::optional<Upkeep>& upkeep) {
  end.AwaitRequest();
  TellManager("STOPPING=1");
  Log(LogLevel::kInfo,
      absl::StrCat("draining: ", server.in_progress(), " reductions and merges in progress"));
  end.EndWithin(absl::Seconds(flags.drain_seconds) + kLongestEnd, kDrained);
  server.Drain(absl::Seconds(flags.drain_seconds));
  end.Unwatch();
  end.EndWithin(kPuttingAway, kDrained);
  upkeep.reset();
  call_log.SayLeftOut(/*all=*/true);
  SayLinesLeftOut(/*all=*/true);
  Log(LogLevel::kInfo, "drained");
}

int Run(ProcessEnd& end, LogQueue& output, const Flags& flags, const OpenBackend& open_backend) {
  TlsRenewal tls_renewal(flags);
  const absl::StatusOr<std::optional<TlsKeys>> tls = ReadTlsKeys(flags);
  if (!tls.ok()) return Refuse(end, kBadFlags, tls.status().message());
  if (tls->has_value()) tls_renewal.Used(**tls);
  absl::StatusOr<std::unique_ptr<Admin>> admin = OpenAdmin(flags);
  if (!admin.ok()) return RefuseFor(end, admin.status());
  // A system that has less memory would kill the process without saying why.
  if (absl::Status status = CheckSlots(flags, AvailableMemory()); !status.ok()) return RefuseFor(end, status);
  const absl::StatusOr<std::unique_ptr<kernels::Backend>> backend = open_backend(flags);
  if (!backend.ok()) {
    return Refuse(end, kNotThere,
                  absl::StrCat(DeviceFlags(flags, backend.status()), ": ", backend.status().message()));
  }
  const absl::StatusOr<MemoryBudget> memory = CheckMemory(flags, **backend);
  if (!memory.ok()) return Refuse(end, kBadFlags, memory.status().message());
  OpenReceiving(**backend);
  Service service(**backend, LimitsOf(flags, **backend), SteadyNow);
  AllowFile allow_file(flags.allow, service.access);
  if (absl::Status status = allow_file.Load(); !status.ok()) return Refuse(end, kBadFlags, status.message());
  CallLog call_log(service.clock);
  service.reflection = flags.reflection;
  Observers observers;
  observers.Add(&call_log);
  if (*admin != nullptr) observers.Add(admin->get());
  service.observer = &observers;
  service.crossovers = MeasureCrossovers(flags, service);
  if (absl::Status status = OpenResidentArrays(flags, service); !status.ok()) {
    return RefuseFor(end, absl::Status(status.code(), absl::StrCat("--resident_bytes=", flags.resident_bytes,
                                                                   ": ", status.message())));
  }
  absl::StatusOr<std::unique_ptr<MemorySocket>> memory_socket = OpenMemorySocket(flags, service);
  if (!memory_socket.ok()) {
    return Refuse(end, kBadFlags, absl::StrCat("--memory_socket: ", memory_socket.status().message()));
  }
  RpcServerOptions options = OptionsOf(flags, *tls, *memory);
  options.before_listening = [&end] { end.ServeFromNow(); };  // who can connect is drained
  const auto server = RpcServer::Start(service, options);
  if (!server.ok()) return RefuseFor(end, server.status());
  const absl::Cleanup stop_watching = [&end] { end.Unwatch(); };  // before the server goes, whatever throws
  end.Watch([&] {
    if ((*server)->faulted()) EndAfterFault(**server, memory_socket->get());
  });
  // Threads come before the pages read anything: if there is none left, what they read is destroyed before
  // they are.
  std::optional<PeriodicThread> file_watcher;
  if (tls->has_value() || !flags.allow.empty()) {
    file_watcher.emplace([&] { ReloadChangedFiles(**server, tls_renewal, allow_file, service.clock()); });
  }
  std::optional<Upkeep> upkeep(std::in_place, call_log, *memory, service.clock);
  if (*admin != nullptr) {
    absl::Status attached = (*admin)->Attach(
        SourcesOf(flags, service, **server, memory_socket->get(), tls_renewal, allow_file, *memory));
    if (!attached.ok()) return Refuse(end, kNotThere, absl::StrCat("--admin_listen: ", attached.message()));
  }
  SayReady(output, **server, admin->get(), service, *memory);
  Serve(end, flags, **server, call_log, upkeep);
  admin->reset();          // before what the pages read
  memory_socket->reset();  // its file is removed, even if reading a watched file hangs
  return kDrained;
}

// Like Run, also if a thread cannot be made.
int RunOrRefuse(ProcessEnd& end, LogQueue& output, const Flags& flags, const OpenBackend& open_backend) {
  try {
    return Run(end, output, flags, open_backend);
  } catch (const std::system_error&) {
    return Refuse(end, kNotThere, "the system allows too few threads");
  }
}

}  // namespace

int ServerMain(int argc, const char* const* argv, const OpenBackend& open_backend) {
  if (argc == 2 && argv[1] == absl::string_view(kSealMemoryFlag)) return ServeSealing(SealAgainstHoles);
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
  RaiseFileLimit();
  try {
    ProcessEnd& end = ProcessEnd::Make();
    SetUpLogging(flags.log_format, flags.log_level);
    LogQueue& output =
        LogQueue::Make(STDOUT_FILENO, kMaxOutputBytes, [](std::int64_t) { return std::string(); });
    const int exit_code = no_start.has_value()
                              ? Refuse(end, *no_start, absl::StripTrailingAsciiWhitespace(complaint.str()))
                              : RunOrRefuse(end, output, flags, open_backend);
    FlushLog();
    return exit_code;
  } catch (const std::system_error&) {
    std::cerr << "the system allows too few threads for signals and the log" << std::endl;
    return kNotThere;
  }
}

}  // namespace warpfold::server
