// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// warpfold-server.
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "kernels/devices.h"
#include "proto/shared/processors.h"
#include "proto/standard_descriptors.h"
#include "server/log/logging.h"
#include "server/memory/handle_prober.h"
#include "server/process/memory_budget.h"
#include "server/server_main.h"

namespace warpfold::server {
namespace {

absl::StatusOr<std::unique_ptr<kernels::Backend>> OpenDevice(const Flags& flags) {
  std::string note;
  const int threads = flags.cpu_threads > 0 ? flags.cpu_threads : ProcessorCount();
  auto backend = kernels::MakeBackend(
      flags.device, {.slots = SlotsOf(flags), .slot_bytes = flags.slot_bytes, .threads = threads}, &note);
  if (!note.empty()) Log(LogLevel::kInfo, note);
  return backend;
}

}  // namespace
}  // namespace warpfold::server

int main(int argc, char** argv) {
  if (absl::string_view device = argc == 2 ? argv[1] : "";
      absl::ConsumePrefix(&device, warpfold::server::kProbeMemoryFlag)) {
    return warpfold::server::ServeProbes([device](const warpfold::kernels::ProcessMemory& memory) {
      return warpfold::kernels::ProbeMemory(device, memory);
    });
  }
  return warpfold::server::ServerMain(argc, argv, warpfold::server::OpenDevice);
}
