// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
#include "server/server_main.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "server/call_log.h"
#include "server/core/crossover.h"
#include "server/core/service.h"
#include "server/logging.h"
#include "server/process.h"
#include "server/rpc/rpc_server.h"
#include "server/version.h"

namespace warpfold::server {
namespace {

constexpr int kDrained = 0;
constexpr int kBadFlags = 2;
constexpr int kNoDevice = 3;
constexpr int kDeviceFailed = 4;

// How long the answers to calls in progress may take once the device has failed.
constexpr absl::Duration kLastAnswers = absl::Milliseconds(250);
constexpr absl::Duration kDrainCheck = absl::Milliseconds(10);

// Whether a whole PEM block is in `text` whose label ends with `what`: EC PRIVATE KEY is a PRIVATE KEY.
bool HasPemBlock(absl::string_view text, absl::string_view what) {
  constexpr absl::string_view kBegin = "-----BEGIN ";
  constexpr absl::string_view kDashes = "-----";
  for (std::size_t at = 0; (at = text.find(kBegin, at)) != absl::string_view::npos;) {
    at += kBegin.size();
    const absl::string_view label = text.substr(at, text.find(kDashes, at) - at);
    if (!absl::EndsWith(label, what)) continue;
    if (absl::StrContains(text.substr(at), absl::StrCat("-----END ", label, kDashes))) return true;
  }
  return false;
}

// The text of the PEM file that a flag names. Of a text without blocks gRPC would not make an error, but a
// server that does not ask for certificates.
absl::StatusOr<std::string> ReadPem(absl::string_view flag, const std::string& path, absl::string_view what) {
  absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return absl::InvalidArgumentError(absl::StrCat(flag, ": the file cannot be read"));
  if (!HasPemBlock(*text, what)) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": the file holds no PEM block ", what));
  }
  return text;
}

// What the TLS flags name; nothing without them.
absl::StatusOr<std::optional<TlsKeys>> ReadTlsKeys(const Flags& flags) {
  if (flags.tls_cert.empty()) return std::nullopt;
  absl::StatusOr<std::string> certificate = ReadPem("--tls_cert", flags.tls_cert, "CERTIFICATE");
  if (!certificate.ok()) return certificate.status();
  absl::StatusOr<std::string> key = ReadPem("--tls_key", flags.tls_key, "PRIVATE KEY");
  if (!key.ok()) return key.status();
  TlsKeys keys = {.certificate = *std::move(certificate), .key = *std::move(key), .client_ca = std::nullopt};
  if (!flags.tls_client_ca.empty()) {
    absl::StatusOr<std::string> client_ca = ReadPem("--tls_client_ca", flags.tls_client_ca, "CERTIFICATE");
    if (!client_ca.ok()) return client_ca.status();
    keys.client_ca = *std::move(client_ca);
  }
  return keys;
}

Limits LimitsOf(const Flags& flags, kernels::Backend& backend) {
  return {.max_stream_bytes = flags.max_stream_bytes,
          .max_concurrent_reductions = flags.max_concurrent_reductions,
          .call = {.idle = absl::Seconds(flags.idle_timeout_seconds),
                   .duration = absl::Seconds(flags.max_stream_seconds)},
          .slots = backend.slots().size(),
          .slot_bytes = backend.slots().front()->staging().size()};
}

// Ends the process without running what would touch the device.
[[noreturn]] void EndAfterFault(RpcServer& server) {
  server.WaitUntilIdle(kLastAnswers);
  absl::SleepFor(kLastAnswers);
  for (const std::string& address : server.addresses()) {
    if (address.starts_with("unix:")) unlink(address.substr(5).c_str());
  }
  FlushLog();
  std::_Exit(kDeviceFailed);
}

// A device that fails while the server drains would keep it from ever ending.
void DrainUnlessFaulted(RpcServer& server, absl::Duration grace) {
  std::atomic<bool> drained = false;
  std::thread drain([&] {
    server.Drain(grace);
    drained = true;
  });
  while (!drained) {
    if (server.faulted()) EndAfterFault(server);
    absl::SleepFor(kDrainCheck);
  }
  drain.join();
}

int Run(const Flags& flags, const OpenBackend& open_backend) {
  const absl::StatusOr<std::optional<TlsKeys>> tls = ReadTlsKeys(flags);
  if (!tls.ok()) {
    Log(LogLevel::kCritical, tls.status().message());
    return kBadFlags;
  }
  const absl::StatusOr<std::unique_ptr<kernels::Backend>> backend = open_backend(flags);
  if (!backend.ok()) {
    Log(LogLevel::kCritical, absl::StrCat("--device=", flags.device, ": ", backend.status().message()));
    return kNoDevice;
  }
  Service service(**backend, LimitsOf(flags, **backend), MonotonicClock());
  CallLog call_log(service.clock);
  service.log_call = [&call_log](const CallRecord& call) { call_log.Add(call); };
  absl::StatusOr<Crossovers> crossovers = Crossovers::Measure(**backend, service.clock);
  if (!crossovers.ok()) {
    Log(LogLevel::kCritical, absl::StrCat("--device=", flags.device, ": ", crossovers.status().message()));
    return kNoDevice;
  }
  service.crossovers = *std::move(crossovers);

  const auto server = RpcServer::Start(service, {.listen = flags.listen, .tls = *tls});
  if (absl::IsResourceExhausted(server.status())) {
    Log(LogLevel::kCritical, absl::StrCat("--slots=", flags.slots, ": ", server.status().message()));
    return kNoDevice;
  }
  if (!server.ok()) {
    Log(LogLevel::kCritical, absl::StrCat("--listen, --tls_*: ", server.status().message()));
    return kBadFlags;
  }
  std::cout << "READY listen=" << absl::StrJoin((*server)->addresses(), ",")
            << " device=" << (*backend)->device() << std::endl;
  Log(LogLevel::kInfo, absl::StrCat("warpfold-server ", kVersion, " serves on ", (*backend)->device()));
  if (const Crossovers::WarmUp& warm_up = service.crossovers.warm_up(); warm_up.operators > 0) {
    Log(LogLevel::kInfo,
        absl::StrCat("ran ", warm_up.operators, " operators over their types in ",
                     absl::ToInt64Milliseconds(warm_up.took), " ms; the slowest first call took ",
                     absl::ToDoubleMilliseconds(warm_up.slowest), " ms more: ", warm_up.slowest_operator));
  }

  const auto failed = [&] {
    call_log.SayLeftOut();
    return (*server)->faulted();
  };
  if (!AwaitEnd(failed)) EndAfterFault(**server);
  Log(LogLevel::kInfo, "draining");
  DrainUnlessFaulted(**server, absl::Seconds(flags.drain_seconds));
  call_log.SayLeftOut(/*all=*/true);
  Log(LogLevel::kInfo, "drained");
  return kDrained;
}

}  // namespace

int ServerMain(int argc, const char* const* argv, const OpenBackend& open_backend) {
  TuneAllocator();
  ChoosePolling();
  Flags flags;
  if (const auto exit_code = ParseFlags(argc, argv, &flags, std::cout, std::cerr)) return *exit_code;
  HoldSignals();
  IgnoreBrokenPipes();
  RaiseFileLimit();
  try {
    SetUpLogging(flags.log_format);
  } catch (const std::system_error&) {
    std::cerr << "the system allows no thread for the log" << std::endl;
    return kNoDevice;
  }
  const int exit_code = Run(flags, open_backend);
  FlushLog();
  return exit_code;
}

}  // namespace warpfold::server
