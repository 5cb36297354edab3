// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>
#include <pthread.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/cli/bench/sinks.h"
#include "client/cli/commands.h"
#include "client/cli/output.h"
#include "proto/shared/poll_strategy.h"

namespace warpfold::cli {
namespace {

// Sets gRPC up as warpfold-server does (docs/adr/0029, 0084), if the sink is a server on completion queues
// like it. The plain service keeps gRPC's own settings.
void TuneAsServer(SinkKind kind) {
  if (kind == SinkKind::kPlainService) return;
  if (!IsPollStrategyChosen()) setenv(kPollStrategyVariable, "poll", /*overwrite=*/1);
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

// warpfold-server's, too.
void TuneAllocator() {
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
}

// Ends the process in an orderly way when SIGTERM comes, so that tools that inspect it learn what it did.
class EndOnSignal {
 public:
  // Before there is another thread.
  EndOnSignal() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  }
  // Calls `end` then, on a separate thread.
  void Await(std::function<void()> end) {
    thread_ = std::jthread([this, end = std::move(end)] {
      int number = 0;
      sigwait(&signals_, &number);
      end();
    });
  }

 private:
  sigset_t signals_;
  std::jthread thread_;
};

absl::Status Serve(const BenchSinkFlags& flags) {
  EndOnSignal signal;
  const auto ready = [&signal](const std::string& address, std::function<void()> end) {
    signal.Await(std::move(end));
    PrintAnswer(absl::StrCat("READY listen=", address, "\n"));
  };
  switch (flags.kind) {
    case SinkKind::kRawSocket:
      return ServeRawSocket(flags.listen, ready);
    case SinkKind::kAsyncCopy:
    case SinkKind::kAsyncDrop:
    case SinkKind::kAsyncHold:
      return ServeAsync(flags.listen, flags.kind, ready);
    case SinkKind::kPlainService:
      return ServePlainService(flags.listen, ready);
  }
  return absl::OkStatus();
}

}  // namespace

int RunBenchSink(const BenchSinkFlags& flags) {
  TuneAllocator();
  TuneAsServer(flags.kind);
  const absl::Status served = Serve(flags);
  return served.ok() ? 0 : ReportCallError(served);
}

}  // namespace warpfold::cli
