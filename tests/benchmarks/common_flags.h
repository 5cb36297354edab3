// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The flags that all benchmarks have.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "tests/benchmarks/json_line.h"
#include "tests/benchmarks/rounds.h"

namespace warpfold::benchmarks {

// Fails for anything that is not the name of an element type.
CLI::Validator DtypeValidator();

void AddRoundFlags(CLI::App& app, RoundLimits* limits);
void AddProvenanceFlags(CLI::App& app, Provenance* provenance);

// Ends the process for --help (exit 0) and bad flags (exit 2).
void ParseOrExit(CLI::App& app, int argc, const char* const* argv);

}  // namespace warpfold::benchmarks
