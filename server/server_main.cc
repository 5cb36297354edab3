// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
#include "server/server_main.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "server/crossover.h"
#include "server/engine.h"
#include "server/logging.h"
#include "server/process.h"
#include "server/rpc_server.h"
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

// The PEM texts that the flags name; nothing without them.
absl::StatusOr<std::optional<TlsKeys>> ReadTlsKeys(const Flags& flags) {
  if (flags.tls_cert.empty()) return std::nullopt;
  TlsKeys keys;
  for (const auto& [path, text] :
       {std::pair(&flags.tls_cert, &keys.certificate), std::pair(&flags.tls_key, &keys.key),
        std::pair(&flags.tls_client_ca, &keys.client_ca)}) {
    if (path->empty()) continue;
    absl::StatusOr<std::string> read = ReadFile(*path);
    if (!read.ok()) return read.status();
    *text = *std::move(read);
  }
  return keys;
}

Limits LimitsOf(const Flags& flags) {
  return {.max_stream_bytes = flags.max_stream_bytes,
          .max_concurrent_reductions = flags.max_concurrent_reductions,
          .call = {.idle = absl::Seconds(flags.idle_timeout_seconds),
                   .duration = absl::Seconds(flags.max_stream_seconds)},
          .slot_bytes = flags.slot_bytes};
}

// Ends the process without running what would touch the device.
[[noreturn]] void EndAfterFault(RpcServer& server) {
  server.WaitUntilIdle(kLastAnswers);
  absl::SleepFor(kLastAnswers);
  for (const std::string& address : server.addresses()) {
    if (address.starts_with("unix:")) unlink(address.substr(5).c_str());
  }
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
    spdlog::critical("a TLS file {}", absl::StrCat(tls.status().message()));
    return kBadFlags;
  }
  const absl::StatusOr<std::unique_ptr<kernels::Backend>> backend = open_backend(flags);
  if (!backend.ok()) {
    spdlog::critical("--device={}: {}", flags.device, absl::StrCat(backend.status().message()));
    return kNoDevice;
  }
  Engine engine(**backend, LimitsOf(flags), MonotonicClock());
  engine.cpu_crossover_bytes = MeasureCrossoverBytes(**backend, engine.clock);

  const auto server = RpcServer::Start(engine, {.listen = flags.listen, .tls = *tls});
  if (!server.ok()) {
    spdlog::critical("--listen, --tls_*: {}", absl::StrCat(server.status().message()));
    return kBadFlags;
  }
  std::cout << "READY listen=" << absl::StrJoin((*server)->addresses(), ",")
            << " device=" << (*backend)->device() << std::endl;
  spdlog::info("warpfold-server {} serves on {}, cpu_crossover_bytes={}", kVersion, (*backend)->device(),
               engine.cpu_crossover_bytes);

  if (!AwaitEnd([&] { return (*server)->faulted(); })) EndAfterFault(**server);
  spdlog::info("draining");
  DrainUnlessFaulted(**server, absl::Seconds(flags.drain_seconds));
  spdlog::info("drained");
  return kDrained;
}

}  // namespace

int ServerMain(int argc, const char* const* argv, const OpenBackend& open_backend) {
  TuneAllocator();
  Flags flags;
  if (const auto exit_code = ParseFlags(argc, argv, &flags, std::cout, std::cerr)) return *exit_code;
  SetUpLogging(flags.log_format);
  RaiseFileLimit();
  HoldSignals();
  return Run(flags, open_backend);
}

}  // namespace warpfold::server
