// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// warpfold-server.
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/devices.h"
#include "server/logging.h"
#include "server/rpc/rpc_server.h"
#include "server/server_main.h"

namespace warpfold::server {
namespace {

absl::StatusOr<std::unique_ptr<kernels::Backend>> OpenDevice(const Flags& flags) {
  std::string note;
  // One fills while the device has the other.
  constexpr int kSlotsPerShard = 2;
  const int slots = flags.slots > 0 ? flags.slots : kSlotsPerShard * ShardCount(SIZE_MAX);
  auto backend = kernels::MakeBackend(
      flags.device, {.slots = slots, .slot_bytes = flags.slot_bytes, .threads = flags.cpu_threads}, &note);
  if (!note.empty()) Log(LogLevel::kInfo, note);
  return backend;
}

}  // namespace
}  // namespace warpfold::server

int main(int argc, char** argv) {
  return warpfold::server::ServerMain(argc, argv, warpfold::server::OpenDevice);
}
