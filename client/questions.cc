// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Client's questions about its servers. All servers are asked at once, since one that is silent must not use
// up the time in which another would answer.
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/advice.h"
#include "client/client.h"
#include "client/grpc_process.h"
#include "client/raw_call.h"
#include "client/retry.h"
#include "client/targets.h"
#include "grpc/health/v1/health.pb.h"

namespace warpfold {
namespace {

constexpr char kHealthMethod[] = "/grpc.health.v1.Health/Check";

// How often health is asked again when all servers say that they do not serve, and after which pause.
constexpr int kAskedAgain = 4;
constexpr absl::Duration kPauseOfLeaving = absl::Milliseconds(100);

// Asks one target. Whether its answer is good enough to ask no other.
using Ask = std::function<bool(std::size_t target, const Interrupts& interrupts)>;

// How many threads still ask.
class Asking {
 public:
  explicit Asking(std::size_t threads) : threads_(threads) {}

  void Leave() {
    absl::MutexLock lock(&mutex_);
    --threads_;
  }
  // Whether all have left, within `timeout`.
  bool AwaitAll(absl::Duration timeout) {
    absl::MutexLock lock(&mutex_);
    const auto none = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return threads_ == 0; };
    return mutex_.AwaitWithTimeout(absl::Condition(&none), timeout);
  }

 private:
  absl::Mutex mutex_;
  std::size_t threads_ ABSL_GUARDED_BY(mutex_);
};

// Asks each target on a thread of its own, and cancels the others once one answer is good enough.
void AskAll(std::size_t targets, const Interrupts& interrupts, const Ask& ask) {
  if (targets == 1) {
    ask(0, interrupts);
    return;
  }
  LookUpCpuFrequency();
  std::stop_source stop_all;
  const std::stop_callback forward_stop(interrupts.stop, [&] { stop_all.request_stop(); });
  Asking asking(targets);
  std::vector<std::jthread> threads;
  for (std::size_t target = 0; target < targets; ++target) {
    threads.emplace_back([&, target] {
      // keep_going is for the thread that calls.
      const Interrupts each = {.stop = stop_all.get_token(),
                               .traceparent = interrupts.traceparent,
                               .tracestate = interrupts.tracestate};
      if (ask(target, each)) stop_all.request_stop();
      asking.Leave();
    });
  }
  while (interrupts.keep_going && !asking.AwaitAll(kAskedEvery)) {
    if (interrupts.keep_going()) continue;
    stop_all.request_stop();
    break;
  }
}

// Whether any target serves, or the first error where none answered.
absl::StatusOr<bool> AnyServes(Targets& targets, absl::Time deadline, const Interrupts& interrupts) {
  std::vector<absl::StatusOr<bool>> answers(targets.count());
  AskAll(targets.count(), interrupts, [&](std::size_t target, const Interrupts& each) {
    const Targets::Lease lease = targets.Take(target, absl::InfiniteFuture());
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
  });
  absl::StatusOr<bool> serving = answers.front();
  for (const absl::StatusOr<bool>& answer : answers) {
    if (answer.ok() && (*answer || !serving.ok())) serving = answer;
  }
  return serving;
}

}  // namespace

absl::StatusOr<v1::GetServerInfoResponse> Client::GetServerInfo(const CallOptions& options) {
  const absl::Time deadline = absl::Now() + options.timeout;
  std::vector<absl::StatusOr<v1::GetServerInfoResponse>> answers(targets_->count());
  AskAll(targets_->count(), InterruptsOf(options), [&](std::size_t target, const Interrupts& each) {
    RetryLoop retry(*targets_, target, options_, deadline, each);
    do {
      answers[target] = AskServerInfo(retry.connection(), deadline, retry.interrupts());
    } while (!answers[target].ok() && retry.Again(answers[target].status(), {}));
    return answers[target].ok();
  });
  for (const absl::StatusOr<v1::GetServerInfoResponse>& answer : answers) {
    if (answer.ok()) return answer;
  }
  return answers.front();
}

absl::StatusOr<bool> Client::IsServing(const CallOptions& options) {
  const absl::Time deadline = absl::Now() + options.timeout;
  const Interrupts interrupts = InterruptsOf(options);
  absl::StatusOr<bool> serving = AnyServes(*targets_, deadline, interrupts);
  // A server that leaves says so before it closes its connections, or closes one on which it is just asked.
  // Another address of the same name may serve, and the name leads there once those are closed.
  const auto leaves = [&] { return serving.ok() ? !*serving : absl::IsUnavailable(serving.status()); };
  for (int again = 0; again < kAskedAgain && leaves(); ++again) {
    targets_->Take(0, absl::InfiniteFuture()).connection().PauseAndConnect(kPauseOfLeaving, interrupts);
    const absl::StatusOr<bool> later = AnyServes(*targets_, deadline, interrupts);
    if (later.ok()) serving = later;
  }
  return serving;
}

}  // namespace warpfold
