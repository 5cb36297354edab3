// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// warpfold-server that breaks its own GPU, to test what the process then owes its users. SIGUSR1: a kernel
// writes to address 0. SIGUSR2: a kernel that never ends occupies all multiprocessors. Takes the flags of
// warpfold-server; the device is cuda:0.
#include <csignal>
#include <string>
#include <thread>

#include "kernels/devices.h"
#include "server/server_main.h"
#include "tests/gpu/broken_device.h"

namespace warpfold::server {
namespace {

sigset_t Commands() {
  sigset_t commands;
  sigemptyset(&commands);
  sigaddset(&commands, SIGUSR1);
  sigaddset(&commands, SIGUSR2);
  return commands;
}

// Runs until the process ends.
void Obey() {
  const sigset_t commands = Commands();
  for (int command = 0; sigwait(&commands, &command) == 0;) {
    command == SIGUSR1 ? WriteToAddressZero() : OccupyForEver();
  }
}

}  // namespace
}  // namespace warpfold::server

int main(int argc, char** argv) {
  using namespace warpfold;  // NOLINT(google-build-using-namespace): this is its main
  const sigset_t commands = server::Commands();
  pthread_sigmask(SIG_BLOCK, &commands, nullptr);
  return server::ServerMain(argc, argv, [](const server::Flags& flags) {
    std::string note;
    auto backend = kernels::MakeBackend("cuda:0", {.slots = 4, .slot_bytes = flags.slot_bytes}, &note);
    std::thread(server::Obey).detach();
    return backend;
  });
}
