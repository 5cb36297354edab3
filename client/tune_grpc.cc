// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/tune_grpc.h"

#include <cstdlib>
#include <optional>
#include <string>

#include "absl/synchronization/mutex.h"
#include "client/connections/grpc_process.h"
#include "proto/shared/poll_strategy.h"

namespace warpfold {
namespace {

// Whether gRPC runs now.
bool Tune() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // gRPC reads the variable when it starts. It is removed again, so that programs that this one starts later
  // have gRPC's default.
  if (IsPollStrategyChosen()) return KeepGrpcRunning().ok();
  const char* const value = std::getenv(kPollStrategyVariable);
  const std::optional<std::string> before = value == nullptr ? std::nullopt : std::optional(value);
  setenv(kPollStrategyVariable, "poll", /*overwrite=*/1);
  const bool runs = KeepGrpcRunning().ok();
  if (before.has_value()) {
    setenv(kPollStrategyVariable, before->c_str(), /*overwrite=*/1);
  } else {
    unsetenv(kPollStrategyVariable);
  }
  return runs;
}

}  // namespace

void TuneGrpc() {
  static absl::Mutex mutex;
  static bool done = false;
  absl::MutexLock lock(&mutex);
  if (!done) done = Tune();
}

}  // namespace warpfold
