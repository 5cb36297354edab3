// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// warpfold-server over a fake device that fails on command, to test what the process then owes its users.
// SIGUSR1: its slots hang from now on, as those of a GPU may that is about to fail. SIGUSR2: it reports that
// it has failed. SIGHUP: a call that starts a slot does not return. Standard error says when the first or the
// last is obeyed, and when a slot hangs. With --slots=1 it cannot even start a reduction. Where --device
// names several GPUs it has as many fake devices.
#include <csignal>
#include <iostream>
#include <memory>
#include <thread>

#include "kernels/devices.h"
#include "server/server_main.h"
#include "tests/server/fake_backend.h"

namespace warpfold::server {
namespace {

sigset_t Commands() {
  sigset_t commands;
  sigemptyset(&commands);
  sigaddset(&commands, SIGUSR1);
  sigaddset(&commands, SIGUSR2);
  sigaddset(&commands, SIGHUP);
  return commands;
}

// Runs until the process ends, as the backend does.
void Obey(FakeBackend& backend) {
  const sigset_t commands = Commands();
  for (int command = 0; sigwait(&commands, &command) == 0;) {
    if (command == SIGUSR2) {
      backend.faulty = true;
      continue;
    }
    if (command == SIGHUP) {
      backend.behaviour.stuck = true;
      std::cerr << "starts will not return" << std::endl;
      continue;
    }
    backend.behaviour.SetBlocked(true);
    std::cerr << "slots will hang" << std::endl;
    while (backend.behaviour.working() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::cerr << "a slot hangs" << std::endl;
  }
}

}  // namespace
}  // namespace warpfold::server

int main(int argc, char** argv) {
  using namespace warpfold::server;  // NOLINT(google-build-using-namespace): this is its main
  const sigset_t commands = Commands();
  pthread_sigmask(SIG_BLOCK, &commands, nullptr);
  return ServerMain(argc, argv, [](const Flags& flags) {
    const auto gpus = warpfold::kernels::ParseGpus(flags.device);
    const int devices = gpus.ok() ? static_cast<int>(gpus->size()) : 1;
    auto backend = std::make_unique<FakeBackend>(2 * devices, std::size_t{64} << 10, devices);
    backend->behaviour.fail_start = flags.slots == 1;
    std::thread([&obeying = *backend] { Obey(obeying); }).detach();
    return backend;
  });
}
