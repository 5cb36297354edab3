// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// warpfold: arrays reduced from the command line.
#include <csignal>
#include <variant>

#include "client/cli/commands.h"
#include "client/cli/flags.h"

namespace warpfold::cli {
namespace {

struct Run {
  const std::string& target;
  int operator()(const ReduceFlags& flags) const { return RunReduce(target, flags); }
  int operator()(const InfoFlags& flags) const { return RunInfo(target, flags); }
  int operator()(const HealthFlags&) const { return RunHealth(target); }
  int operator()(const BenchFlags& flags) const { return RunBench(target, flags); }
};

}  // namespace

int Main(int argc, const char* const* argv) {
  // A reader of the answer that is gone is an error to report, not a death.
  std::signal(SIGPIPE, SIG_IGN);
  const auto line = ParseCommandLine(argc, argv);
  if (const int* exit_code = std::get_if<int>(&line)) return *exit_code;
  const CommandLine& command_line = std::get<CommandLine>(line);
  return std::visit(Run{command_line.target}, command_line.command);
}

}  // namespace warpfold::cli

int main(int argc, char** argv) { return warpfold::cli::Main(argc, argv); }
