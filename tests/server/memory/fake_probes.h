// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A process that probes handles for tests: the test's executable, started again. The first byte of a handle
// says what happens to a process that reads the memory.
#pragma once

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "server/memory/handle_prober.h"

namespace warpfold::server {

inline constexpr char kProbeFlag[] = "--probe";

enum class Fate : unsigned char {
  kGood,
  kGoodOnce,
  kBad,
  kFaults,
  kCrashes,
  kHangs,
  kNoRoom,
  kLast,
  kSlow,
};

inline absl::Status ReadFake(const kernels::ProcessMemory& memory) {
  static int probes = 0;
  ++probes;
  switch (static_cast<Fate>(memory.handle[0])) {
    case Fate::kGood:
      return absl::OkStatus();
    case Fate::kGoodOnce:
      return probes == 1 ? absl::OkStatus() : absl::InvalidArgumentError("asked again");
    case Fate::kBad:
      return absl::InvalidArgumentError("no such memory");
    case Fate::kFaults:
      return absl::UnavailableError("CUDA error 700");
    case Fate::kCrashes:
      std::raise(SIGKILL);
      break;
    case Fate::kHangs:
      pause();
      break;
    case Fate::kLast:
      std::thread([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        _exit(0);
      }).detach();
      return absl::OkStatus();
    case Fate::kNoRoom:
      return absl::ResourceExhaustedError(std::string(5000, 'x'));
    case Fate::kSlow:
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      return absl::OkStatus();
  }
  return absl::UnknownError("");
}

// Whether this process was started to probe.
inline bool Probes(int argc, char** argv) { return argc == 2 && std::strcmp(argv[1], kProbeFlag) == 0; }

}  // namespace warpfold::server
