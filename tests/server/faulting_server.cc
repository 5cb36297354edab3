// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// warpfold-server over a fake device that fails on command, to test what the process then owes its users.
// SIGUSR1: its slots hang from now on, as those of a GPU that is about to fail may. SIGUSR2: it reports that
// it has failed. SIGHUP: a call that starts a slot does not return. SIGALRM: nothing outside the process
// responds any more: registrations of memory, questions to the driver and looks at files do not return, and
// no thread can be made; nor does the end of a connection that floods. Standard error reports when these
// signals are obeyed, except the second, and when a slot or a registration hangs. With --slots=1 it cannot
// even start a reduction. If --device names several GPUs, it has as many fake devices.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <memory>
#include <string>
#include <thread>

#include "kernels/devices.h"
#include "server/server_main.h"
#include "tests/server/fake_backend.h"

namespace warpfold::server {
namespace {

std::atomic<bool> outside_hangs = false;

// Writes it at once: the log's thread writes to the same file, and tests look for whole lines.
void Say(std::string line) {
  line += '\n';
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) _exit(1);
}

void HangIfAsked(const char* what) {
  if (!outside_hangs) return;
  Say(std::string(what) + " hangs");
  while (true) pause();
}

class HangingBackend : public FakeBackend {
 public:
  using FakeBackend::FakeBackend;

  absl::StatusOr<std::unique_ptr<kernels::Memory>> BeginRegister(std::span<const std::byte> bytes,
                                                                 bool is_written) override {
    HangIfAsked("a registration");
    return FakeBackend::BeginRegister(bytes, is_written);
  }
  std::vector<kernels::DeviceTelemetry> Telemetry() override {
    HangIfAsked("the driver");
    return FakeBackend::Telemetry();
  }
};

sigset_t Commands() {
  sigset_t commands;
  sigemptyset(&commands);
  sigaddset(&commands, SIGUSR1);
  sigaddset(&commands, SIGUSR2);
  sigaddset(&commands, SIGHUP);
  sigaddset(&commands, SIGALRM);
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
      Say("starts will not return");
      continue;
    }
    if (command == SIGALRM) {
      outside_hangs = true;
      Say("nothing outside will answer");
      continue;
    }
    backend.behaviour.SetBlocked(true);
    Say("slots will hang");
    while (backend.behaviour.working() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    Say("a slot hangs");
  }
}

}  // namespace
}  // namespace warpfold::server

// Replaces the C library's function.
extern "C" int stat(const char* path, struct stat* info) noexcept {
  warpfold::server::HangIfAsked("a file");
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, info, 0));
}

// Behaves as before Linux 6.16; later versions can refuse descriptors.
extern "C" int setsockopt(int descriptor, int level, int name, const void* value, socklen_t size) noexcept {
  constexpr int kPassRights = 83;
  if (level == SOL_SOCKET && name == kPassRights) {
    errno = ENOPROTOOPT;
    return -1;
  }
  if (level == SOL_SOCKET && name == SO_LINGER) warpfold::server::HangIfAsked("the end of a connection");
  return static_cast<int>(syscall(SYS_setsockopt, descriptor, level, name, value, size));
}

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                              void* argument) noexcept {
  static const auto make = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return warpfold::server::outside_hangs ? EAGAIN : make(thread, attributes, run, argument);
}

int main(int argc, char** argv) {
  using namespace warpfold::server;  // NOLINT(google-build-using-namespace): this is its main
  const sigset_t commands = Commands();
  pthread_sigmask(SIG_BLOCK, &commands, nullptr);
  return ServerMain(argc, argv, [](const Flags& flags) {
    const auto gpus = warpfold::kernels::ParseGpus(flags.device);
    const int devices = gpus.ok() ? static_cast<int>(gpus->size()) : 1;
    auto backend = std::make_unique<HangingBackend>(2 * devices, std::size_t{64} << 10, devices);
    backend->behaviour.fail_start = flags.slots == 1;
    std::thread([&obeying = *backend] { Obey(obeying); }).detach();
    return backend;
  });
}
