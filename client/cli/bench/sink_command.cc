// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/cli/bench/sinks.h"
#include "client/cli/commands.h"
#include "client/cli/output.h"

namespace warpfold::cli {
namespace {

// As warpfold-server does (docs/adr/0029, 0084), where the sink is a server on completion queues like it. The
// plain service stays as gRPC has it.
void TuneGrpc(SinkKind kind) {
  if (kind == SinkKind::kPlainService) return;
  setenv("GRPC_POLL_STRATEGY", "poll", /*overwrite=*/0);
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

// warpfold-server's, too.
void TuneAllocator() {
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
}

void SayReady(const std::string& address) { PrintAnswer(absl::StrCat("READY listen=", address, "\n")); }

absl::Status Serve(const BenchSinkFlags& flags) {
  switch (flags.kind) {
    case SinkKind::kRawSocket:
      return ServeRawSocket(flags.listen, SayReady);
    case SinkKind::kAsyncCopy:
    case SinkKind::kAsyncDrop:
    case SinkKind::kAsyncHold:
      return ServeAsync(flags.listen, flags.kind, SayReady);
    case SinkKind::kPlainService:
      return ServePlainService(flags.listen, SayReady);
  }
  return absl::OkStatus();
}

}  // namespace

int RunBenchSink(const BenchSinkFlags& flags) {
  TuneAllocator();
  TuneGrpc(flags.kind);
  return ReportServerError(Serve(flags));
}

}  // namespace warpfold::cli
