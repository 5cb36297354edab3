// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/benchmarks/common_flags.h"

#include <cstdlib>

#include "kernels/reduction.h"

namespace warpfold::benchmarks {
namespace {

constexpr int kBadFlags = 2;

std::string CheckDtype(const std::string& name) {
  return ElementTypeByName(name) ? "" : "is not an element type: " + name;
}

}  // namespace

CLI::Validator DtypeValidator() { return CLI::Validator(CheckDtype, "DTYPE"); }

void AddRoundFlags(CLI::App& app, RoundLimits* limits) {
  app.add_option("--budget_ms", limits->budget_ms, "Time for the rounds of one size")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--min_rounds", limits->min_rounds, "Rounds of one size whatever they take")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--max_rounds", limits->max_rounds, "Rounds of one size, time permitting")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
}

void AddProvenanceFlags(CLI::App& app, Provenance* provenance) {
  app.add_option("--commit", provenance->commit, "The commit that was built, for the output");
  app.add_option("--date", provenance->date, "The day, YYYY-MM-DD, for the output");
}

void ParseOrExit(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : kBadFlags);
  }
}

}  // namespace warpfold::benchmarks
