// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/benchmarks/cuda/flags.h"

#include <CLI/CLI.hpp>

#include "absl/strings/str_join.h"
#include "tests/benchmarks/common_flags.h"
#include "tests/benchmarks/cuda/production.h"

namespace warpfold::benchmarks {
namespace {

std::string CheckAlgorithm(const std::string& name) {
  for (const std::string& known : AlgorithmNames()) {
    if (name == known) return "";
  }
  return "must be one of " + absl::StrJoin(AlgorithmNames(), ", ");
}

void AddCases(CLI::App& app, Flags* flags) {
  CLI::Option* preset =
      app.add_option("--preset", flags->preset, "standing: what docs/benchmarks.md shows; quick: some of it")
          ->check(CLI::IsMember({"standing", "quick"}))
          ->capture_default_str();
  app.add_flag_callback(
         "--quick", [flags] { flags->preset = "quick"; }, "The same as --preset quick")
      ->excludes(preset);
  app.add_option("--operators", flags->operators, "Instead of a preset: sum,min,...")->delimiter(',');
  app.add_option("--dtypes", flags->dtypes, "Element types, with --operators")
      ->delimiter(',')
      ->check(DtypeValidator())
      ->capture_default_str();
  app.add_option("--matrix_dimensions", flags->matrix_dimensions,
                 "Square matrices of these dimensions instead of scalars, with --operators")
      ->delimiter(',');
  app.add_option("--modulus", flags->modulus, "Of integer matrix products, with --operators");
  app.add_flag("--once", flags->once, "Launch each case once and measure nothing: for a profiler");
  app.add_flag("--first_use", flags->first_use,
               "Wall time of each case's first launch, with which its kernels are loaded, and of its second");
  app.add_flag("--wide", flags->wide, "Floats of all exponents instead of uniform ones from -1 to 1");
  app.add_flag("--from_host", flags->from_host,
               "Wall time from host call to value on the host instead of device time, with --operators");
}

void AddSettings(CLI::App& app, Flags* flags) {
  app.add_option("--algorithms", flags->algorithms, "Algorithms of Warpfold, a line each")
      ->delimiter(',')
      ->check(CLI::Validator(CheckAlgorithm, "NAME"))
      ->capture_default_str();
  app.add_option("--min_log2", flags->min_log2, "Smallest size: 2 to this power, in bytes")
      ->check(CLI::Range(4, 36))
      ->capture_default_str();
  app.add_option("--max_log2", flags->max_log2, "Largest size")
      ->check(CLI::Range(4, 36))
      ->capture_default_str();
  app.add_option("--step_log2", flags->step_log2, "Steps of the power, with --operators")
      ->check(CLI::Range(1, 32))
      ->capture_default_str();
  AddRoundFlags(app, &flags->rounds);
  app.add_option("--driver", flags->provenance.driver, "The driver's version, for the output");
  AddProvenanceFlags(app, &flags->provenance);
}

}  // namespace

Flags ParseFlags(int argc, const char* const* argv) {
  Flags flags;
  CLI::App app(
      "Reductions on the GPU against CUB, Thrust and a read-only ceiling, on data in device memory: a JSON "
      "object per line.");
  AddCases(app, &flags);
  AddSettings(app, &flags);
  ParseOrExit(app, argc, argv);
  return flags;
}

}  // namespace warpfold::benchmarks
