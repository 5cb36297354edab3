// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The commands. Each prints its answer to standard output, errors to standard error, and returns the
// program's exit code.
#pragma once

#include <string>

#include "client/cli/flags.h"

namespace warpfold::cli {

int RunReduce(const std::string& target, const ReduceFlags& flags);
int RunInfo(const std::string& target, const InfoFlags& flags);
int RunHealth(const std::string& target);
int RunBench(const std::string& target, const BenchFlags& flags);

}  // namespace warpfold::cli
