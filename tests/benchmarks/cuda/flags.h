// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/benchmarks/json_line.h"
#include "tests/benchmarks/rounds.h"

namespace warpfold::benchmarks {

struct Flags {
  std::string preset = "standing";  // standing or quick; not used if `operators` is given
  std::vector<std::string> operators;
  std::vector<std::string> dtypes = {"int32", "float32"};
  std::vector<std::uint32_t> matrix_dimensions;  // none: scalars
  std::uint64_t modulus = 0;                     // 0: none
  std::vector<std::string> algorithms = {"auto"};
  bool from_host = false;
  bool once = false;       // one launch for each case, nothing is measured: for a profiler
  bool first_use = false;  // instead measures how long each case's first and second launch take
  bool wide = false;       // floats of all exponents
  int min_log2 = 10;
  int max_log2 = 33;
  int step_log2 = 1;
  RoundLimits rounds;
  Provenance provenance;
};

// Ends the process for --help (exit 0) and bad flags (exit 2).
Flags ParseFlags(int argc, const char* const* argv);

}  // namespace warpfold::benchmarks
