// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What calls need of the server they arrive at.
#pragma once

#include "server/admission.h"
#include "server/call_registry.h"
#include "server/engine.h"
#include "server/worker_pool.h"
#include "warpfold/v1/reduction.grpc.pb.h"

namespace warpfold::server {

// Reduce takes its messages as the raw bytes that came; the short methods let gRPC parse theirs.
using AsyncService = v1::ReductionService::WithRawMethod_Reduce<
    v1::ReductionService::WithAsyncMethod_ReduceArray<v1::ReductionService::WithAsyncMethod_Merge<
        v1::ReductionService::WithAsyncMethod_GetServerInfo<v1::ReductionService::Service>>>>;

// Threads: each part is safe to share. Outlives all calls.
struct CallHost {
  CallHost(Engine& engine_in, int worker_threads)
      : engine(engine_in), admission(engine_in.limits.max_concurrent_reductions), workers(worker_threads) {}

  Engine& engine;
  AsyncService service;
  Admission admission;
  CallRegistry calls;
  WorkerPool workers;
};

}  // namespace warpfold::server
