// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/tune_grpc.h"

#include <cstdlib>

#include "absl/synchronization/mutex.h"
#include "client/grpc_process.h"

namespace warpfold {
namespace {

constexpr char kPollStrategy[] = "GRPC_POLL_STRATEGY";

bool Tune() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  if (std::getenv(kPollStrategy) != nullptr) {
    KeepGrpcRunning();
    return true;
  }
  // gRPC reads the variable when it starts, and nobody else is to: programs that this one starts have gRPC's
  // default.
  setenv(kPollStrategy, "poll", /*overwrite=*/0);
  KeepGrpcRunning();
  unsetenv(kPollStrategy);
  return true;
}

}  // namespace

void TuneGrpc() { [[maybe_unused]] static const bool done = Tune(); }

}  // namespace warpfold
