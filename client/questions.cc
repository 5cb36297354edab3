// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Client's queries about its servers. All servers are asked at once, since a silent server must not use up
// the time in which another one would respond.
#include <vector>

#include "client/calls/advice.h"
#include "client/calls/raw_call.h"
#include "client/calls/retry.h"
#include "client/calls/side_by_side.h"
#include "client/client.h"
#include "client/connections/status.h"
#include "client/connections/targets.h"
#include "grpc/health/v1/health.pb.h"
#include "proto/shared/steady_time.h"

namespace warpfold {
namespace {

constexpr char kHealthMethod[] = "/grpc.health.v1.Health/Check";

// How often health is queried again when all servers report that they do not serve, and the first pause; each
// later pause is twice as long as the one before. On a busy machine a restart takes half a second.
constexpr int kAskedAgain = 4;
constexpr absl::Duration kPauseOfLeaving = absl::Milliseconds(100);

// Whether any target serves, or the first error if none responded. Each is asked after `pause`, during which
// a broken connection to it is made again.
absl::StatusOr<bool> AnyServes(Targets& targets, absl::Duration pause, absl::Time deadline,
                               const Interrupts& interrupts) {
  std::vector<absl::StatusOr<bool>> answers(targets.count());
  const auto ask = [&](std::size_t target, const Interrupts& each) {
    const Targets::Lease lease = targets.Take(target, absl::InfiniteFuture());
    const auto ends = lease.connection().CouldNotConnect() ? Connection::PauseEnds::kOnceConnected
                                                           : Connection::PauseEnds::kInTime;
    if (pause > absl::ZeroDuration() && !lease.connection().PauseAndConnect(pause, ends, deadline, each)) {
      answers[target] = Cancelled();
      return false;
    }
    CallScope scope(lease.connection(), deadline, each);
    grpc::health::v1::HealthCheckResponse response;
    const absl::Status status =
        CallUnary(scope, kHealthMethod, grpc::health::v1::HealthCheckRequest(), response);
    if (!status.ok()) {
      answers[target] = status;
      return false;
    }
    answers[target] = response.status() == grpc::health::v1::HealthCheckResponse::SERVING;
    return *answers[target];
  };
  if (absl::Status status = RunSideBySide(targets.count(), interrupts, ask); !status.ok()) return status;
  absl::StatusOr<bool> serving = answers.front();
  for (const absl::StatusOr<bool>& answer : answers) {
    if (answer.ok() && (*answer || !serving.ok())) serving = answer;
  }
  return serving;
}

}  // namespace

absl::StatusOr<v1::GetServerInfoResponse> Client::GetServerInfo(const CallOptions& options) {
  if (absl::Status status = CheckCall(options); !status.ok()) return status;
  const absl::Time deadline = DeadlineOf(options);
  std::vector<absl::StatusOr<v1::GetServerInfoResponse>> answers(targets_->count());
  const auto ask = [&](std::size_t target, const Interrupts& each) {
    RetryLoop retry(*targets_, target, options_, deadline, each);
    answers[target] = retry.Run([&](const Connection& connection, const Interrupts& interrupts, Attempt&) {
      return AskServerInfo(connection, deadline, interrupts);
    });
    return answers[target].ok();
  };
  absl::Status status = RunSideBySide(targets_->count(), InterruptsOf(options), ask);
  if (!status.ok()) return status;
  for (const absl::StatusOr<v1::GetServerInfoResponse>& answer : answers) {
    if (answer.ok()) return answer;
  }
  return answers.front();
}

absl::StatusOr<bool> Client::IsServing(const CallOptions& options) {
  if (absl::Status status = CheckCall(options); !status.ok()) return status;
  const absl::Time deadline = DeadlineOf(options);
  const Interrupts interrupts = InterruptsOf(options);
  absl::StatusOr<bool> serving = AnyServes(*targets_, absl::ZeroDuration(), deadline, interrupts);
  // A server that leaves reports this before it closes its connections, or closes one on which a query has
  // just been made. Another address of the same name may serve, and the name leads there once those are
  // closed.
  const auto leaves = [&] { return serving.ok() ? !*serving : absl::IsUnavailable(serving.status()); };
  absl::Duration pause = kPauseOfLeaving;
  for (int again = 0; again < kAskedAgain && leaves(); ++again, pause *= 2) {
    if (SteadyNow() + pause >= deadline) break;
    const absl::StatusOr<bool> later = AnyServes(*targets_, pause, deadline, interrupts);
    if (later.ok() || absl::IsCancelled(later.status())) serving = later;
  }
  return serving;
}

}  // namespace warpfold
