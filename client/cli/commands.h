// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The commands. Each prints its result to standard output, errors to standard error, and returns the
// program's exit code.
#pragma once

#include "client/cli/flags.h"
#include "client/cli/server.h"

namespace warpfold::cli {

int RunReduce(const Server& server, const ReduceFlags& flags);
// Does the work of RunReduce if flags split the array into segments.
int RunSegments(const Server& server, const ReduceFlags& flags);
int RunPut(const Server& server, const PutFlags& flags);
int RunArrays(const Server& server, const ArraysFlags& flags);
int RunDelete(const Server& server, const DeleteFlags& flags);
int RunInfo(const Server& server, const InfoFlags& flags);
int RunHealth(const Server& server);
int RunBench(const Server& server, const BenchFlags& flags);
int RunBenchSink(const BenchSinkFlags& flags);

}  // namespace warpfold::cli
