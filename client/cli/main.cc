// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// warpfold: arrays reduced from the command line.
#include <csignal>
#include <cstdlib>
#include <exception>
#include <new>
#include <variant>

#include "client/cli/commands.h"
#include "client/cli/deadline.h"
#include "client/cli/flags.h"
#include "client/cli/output.h"
#include "client/cli/server.h"
#include "client/tune_grpc.h"
#include "proto/shared/steady_time.h"
#include "proto/shared/tls_names.h"
#include "proto/standard_descriptors.h"

namespace warpfold::cli {
namespace {

struct Run {
  const Server& server;
  int operator()(const ReduceFlags& flags) const { return RunReduce(server, flags); }
  int operator()(const PutFlags& flags) const { return RunPut(server, flags); }
  int operator()(const ArraysFlags& flags) const { return RunArrays(server, flags); }
  int operator()(const DeleteFlags& flags) const { return RunDelete(server, flags); }
  int operator()(const InfoFlags& flags) const { return RunInfo(server, flags); }
  int operator()(const HealthFlags&) const { return RunHealth(server); }
  int operator()(const BenchFlags& flags) const { return RunBench(server, flags); }
  int operator()(const BenchSinkFlags& flags) const { return RunBenchSink(flags); }
};

int Perform(int argc, const char* const* argv) {
  const auto line = ParseCommandLine(argc, argv);
  if (const int* exit_code = std::get_if<int>(&line)) return *exit_code;
  const CommandLine& command_line = std::get<CommandLine>(line);
  RejectUnreadableNames();  // servers may have such names
  // A sink is a server, which chooses its own settings.
  // A client without gRPC says itself that it lacks descriptors.
  if (!std::holds_alternative<BenchSinkFlags>(command_line.command)) TuneGrpc().IgnoreError();
  const absl::StatusOr<Server> server = FindServer(command_line.server);
  if (!server.ok()) {
    const DeadlineGuard guard(SteadyNow(), kExitUsage);
    return ReportInputError("--tls_*", server.status());
  }
  return std::visit(Run{*server}, command_line.command);
}

}  // namespace

int Main(int argc, const char* const* argv) {
  // If the reader of the output is gone, that is an error to report, and does not kill the process.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // nor does a file that is at its limit
  // gRPC's lines would say no more than the error that we report, and not in our format.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  try {
    return Perform(argc, argv);
  } catch (const std::bad_alloc&) {
    return ReportCallError(absl::ResourceExhaustedError("there is not enough memory"));
  } catch (const std::exception& error) {  // for example if the system has no more threads
    return ReportCallError(absl::ResourceExhaustedError(error.what()));
  }
}

}  // namespace warpfold::cli

int main(int argc, char** argv) { return warpfold::cli::Main(argc, argv); }
