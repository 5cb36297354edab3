// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/tune_grpc.h"

#include <cstdlib>

#include "absl/synchronization/mutex.h"
#include "client/connections/grpc_process.h"

namespace warpfold {
namespace {

constexpr char kPollStrategy[] = "GRPC_POLL_STRATEGY";

bool Tune() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // gRPC reads the variable when it starts. It is taken away again, so that programs that this one starts
  // later have gRPC's default.
  const bool is_chosen = std::getenv(kPollStrategy) != nullptr;
  if (!is_chosen) setenv(kPollStrategy, "poll", /*overwrite=*/0);
  KeepGrpcRunning();
  if (!is_chosen) unsetenv(kPollStrategy);
  return true;
}

}  // namespace

void TuneGrpc() { [[maybe_unused]] static const bool done = Tune(); }

}  // namespace warpfold
