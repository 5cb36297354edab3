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

absl::Status Tune() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // gRPC reads the variable when it starts. It is removed again, so that programs that this one starts later
  // have gRPC's default.
  if (IsPollStrategyChosen()) return KeepGrpcRunning();
  const char* const value = std::getenv(kPollStrategyVariable);
  const std::optional<std::string> before = value == nullptr ? std::nullopt : std::optional(value);
  setenv(kPollStrategyVariable, "poll", /*overwrite=*/1);
  absl::Status status = KeepGrpcRunning();
  if (before.has_value()) {
    setenv(kPollStrategyVariable, before->c_str(), /*overwrite=*/1);
  } else {
    unsetenv(kPollStrategyVariable);
  }
  return status;
}

}  // namespace

absl::Status TuneGrpc() {
  static absl::Mutex mutex;
  static bool done = false;
  absl::MutexLock lock(&mutex);
  if (done) return absl::OkStatus();
  absl::Status status = Tune();
  done = status.ok();
  return status;
}

}  // namespace warpfold
