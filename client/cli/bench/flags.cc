// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/bench/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/calls/chunk_stream.h"
#include "client/cli/validators.h"
#include "proto/limits.h"

namespace warpfold::cli {
namespace {

constexpr char kFooter[] =
    R"(Each of the --callers callers uses its own --streams connections and its own part of
--memory_bytes of pseudo-random data. It cycles through that part, so that no call sends data that
is still in a cache.
With --streams above 1, or 0, a caller stripes each array over its connections, as `warpfold
reduce` does.

With --baseline the same load is also sent to baseline servers ("sinks") in separate processes
over the same transport. The servers are measured in turn, for --rounds rounds:
  raw_socket     a socket without gRPC; the bytes are read into a buffer
  async_copy     gRPC's raw messages, copied into a buffer by the thread that receives them
  async_drop     the same without the copy
  async_hold     keeps 8 MiB of messages, as a GPU's slot does, and drops them all; no copy
  plain_service  the generated synchronous service, which copies the chunks into a buffer

With --generated the load is also generated with protoc's stubs, as clients in other languages use
them.

With a --source other than chunks, each caller first shares its memory with the server, exports it
as GPU memory, or puts it with PutArray; the report gives that time as set_up_ms. A server
started with --server gets the necessary flags.

GB/s, calls/s and CPU seconds per GB are medians of the rounds; percentiles are of all calls. --json and --csv
have a line for each side: _min and _max are the smallest and largest round; the server's timings
(queue_us and so on) are means; rate_ratio and p50_ratio are the first side's figure divided by this
side's; null, or nothing, is what cannot be known, such as the CPU time of a server that --server did
not start.
Exit codes: 0 success; 1 a server or sink returned an error or cannot be reached; 2 usage error,
or standard output cannot be written.)";

constexpr std::uint64_t kDefaultBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kDefaultSmallBytes = 4096;
// The client sends smaller arrays in one message instead of a stream.
constexpr std::uint64_t kMinStreamBytes = kSmallArrayBytes + 1;
constexpr int kMaxCallers = 256;
constexpr std::uint64_t kMaxMemory = std::uint64_t{1} << 47;  // a process's addresses

const std::map<std::string, BenchMethod>& Methods() {
  static const auto* const methods = new std::map<std::string, BenchMethod>{{"reduce", BenchMethod::kReduce},
                                                                            {"array", BenchMethod::kArray},
                                                                            {"info", BenchMethod::kInfo},
                                                                            {"health", BenchMethod::kHealth}};
  return *methods;
}

const std::map<std::string, BenchSource>& Sources() {
  static const auto* const sources =
      new std::map<std::string, BenchSource>{{"chunks", BenchSource::kChunks},
                                             {"memory", BenchSource::kMemory},
                                             {"ipc", BenchSource::kIpc},
                                             {"resident", BenchSource::kResident}};
  return *sources;
}

const std::map<std::string, BenchResults>& ResultPlaces() {
  static const auto* const places = new std::map<std::string, BenchResults>{
      {"sent", BenchResults::kSent}, {"shared", BenchResults::kShared}, {"gpu", BenchResults::kGpu}};
  return *places;
}

template <typename Value>
std::string NameOf(Value value, const std::map<std::string, Value>& choices) {
  const auto named =
      std::ranges::find_if(choices, [value](const auto& choice) { return choice.second == value; });
  return named == choices.end() ? "" : named->first;
}

// CLI11's own name transformer would also list the enum values in --help, as bare numbers.
template <typename Value>
CLI::Option* AddChoice(CLI::App& app, const std::string& name, Value& value,
                       const std::map<std::string, Value>& choices, const std::string& help) {
  std::vector<std::string> names;
  std::string by_default;
  for (const auto& [choice, chosen] : choices) {
    names.push_back(choice);
    if (chosen == value) by_default = choice;
  }
  return app
      .add_option_function<std::string>(
          name, [&value, &choices](const std::string& choice) { value = choices.at(choice); }, help)
      ->option_text(absl::StrCat(absl::StrJoin(names, "|"), " [", by_default, "]"))
      ->check(CLI::IsMember(names));
}

CLI::Validator ChunkValidator() {
  const auto check = [](const std::string& text) -> std::string {
    std::uint64_t bytes = 0;
    const bool good = absl::SimpleAtoi(text, &bytes) && std::has_single_bit(bytes) &&
                      bytes >= kMinChunkBytes && bytes <= kMaxChunkBytes;
    return good ? ""
                : absl::StrCat("'", text, "' is not a power of two of ", kMinChunkBytes, " to ",
                               kMaxChunkBytes);
  };
  return CLI::Validator(check, "N");
}

// Rejects --segment_length if it does not fit the other flags. The default of --bytes must already be filled
// in.
void CheckSegments(const BenchFlags& flags) {
  if (flags.segment_length == 0) return;
  if (flags.method != BenchMethod::kReduce || flags.streams != 1 || flags.baseline || flags.generated) {
    throw CLI::ValidationError("--segment_length", "only --method reduce has segments, on one stream");
  }
  if (flags.bytes / ElementTypeBytes(flags.type) % flags.segment_length != 0) {
    throw CLI::ValidationError("--segment_length", "must divide the array's elements");
  }
  if (flags.results == BenchResults::kSent) return;
  if (flags.source == BenchSource::kChunks) {
    throw CLI::ValidationError("--results", "shared and gpu need a --source other than chunks");
  }
  if (flags.server.empty() && flags.memory_socket.empty()) {
    throw CLI::ValidationError("--results", "shared and gpu need --memory_socket or --server");
  }
}

// Validates combinations of options, and fills in the default of --bytes.
void ValidateAndFillDefaults(BenchFlags& flags, bool has_bytes) {
  for (const absl::string_view name : absl::StrSplit(flags.op, ',')) {
    if (flags.baseline && (name == "minmax" || name == "describe")) {
      throw CLI::ValidationError("--baseline", absl::StrCat("sinks do not answer ", name));
    }
  }
  const bool elsewhere = flags.source != BenchSource::kChunks;
  if (elsewhere && (flags.method != BenchMethod::kReduce || flags.streams != 1 || flags.baseline)) {
    throw CLI::ValidationError("--source", "other methods, several streams and sinks need --source chunks");
  }
  const bool registers = flags.source == BenchSource::kMemory || flags.source == BenchSource::kIpc;
  if (registers && flags.server.empty() && flags.memory_socket.empty()) {
    throw CLI::ValidationError("--source", "memory and ipc need --memory_socket or --server");
  }
  if (flags.generated && (elsewhere || flags.method != BenchMethod::kReduce || flags.streams != 1)) {
    throw CLI::ValidationError("--generated", "needs --source chunks, --method reduce and --streams 1");
  }
  if (flags.streams != 1 && flags.method != BenchMethod::kReduce) {
    throw CLI::ValidationError("--streams", "only --method reduce supports several streams");
  }
  if (flags.streams == 0 && flags.baseline)
    throw CLI::ValidationError("--streams", "0 is not supported with --baseline: sinks give no advice");
  if (flags.method == BenchMethod::kInfo || flags.method == BenchMethod::kHealth) {
    if (has_bytes) throw CLI::ValidationError("--bytes", "--method info and health send no array");
    flags.bytes = 0;
    return CheckSegments(flags);
  }
  const bool stream = flags.method == BenchMethod::kReduce;
  if (!has_bytes) flags.bytes = stream ? kDefaultBytes : kDefaultSmallBytes;
  if (flags.bytes == 0 || flags.bytes % ElementTypeBytes(flags.type) != 0) {
    throw CLI::ValidationError("--bytes", "must be a positive multiple of the element size");
  }
  if (stream && !elsewhere && flags.bytes < kMinStreamBytes) {
    throw CLI::ValidationError("--bytes", "arrays of 64 KiB or less are not streamed: use --method array");
  }
  if (!stream && flags.bytes > kMaxChunkBytes) {
    throw CLI::ValidationError(
        "--bytes", absl::StrCat("a message carries at most ", kMaxChunkBytes, " bytes of an array"));
  }
  if (flags.bytes > kMaxMemory / static_cast<std::uint64_t>(flags.callers)) {
    throw CLI::ValidationError("--bytes", "more than a machine's memory, for all callers");
  }
  CheckSegments(flags);
}

void AddSides(CLI::App& app, BenchFlags& flags) {
  CLI::Option* target = app.get_option("--target");
  CLI::Option* server =
      app.add_option("--server", flags.server, "Executable of warpfold-server to start and measure")
          ->check(CLI::ExistingFile)
          ->excludes(target)
          ->excludes(app.get_option("--tls_ca"));
  app.add_option("--server_flags", flags.server_flags, "The server's flags, separated by spaces")
      ->needs(server);
  app.add_option("--transport", flags.transport, "Transport to the started server")
      ->check(CLI::IsMember({"tcp", "unix"}))
      ->needs(server)
      ->capture_default_str();
  app.add_option("--server_pid", flags.server_pid,
                 "PID of the server at --target on this machine, to measure its CPU time")
      ->check(CLI::Range(1, 1 << 22))  // the maximum in Linux
      ->excludes(server);
  app.add_flag("--generated", flags.generated, "Also load the server with protoc's stubs, and compare");
  app.add_flag("--baseline", flags.baseline, "Also load sinks, and compare; see below");
}

// Returns --bytes.
CLI::Option* AddLoad(CLI::App& app, BenchFlags& flags) {
  AddChoice(app, "--method", flags.method, Methods(),
            "Kind of call: reduce (a stream), array (a message), info, health");
  AddChoice(app, "--source", flags.source, Sources(),
            "Location of the arrays: chunks (sent), memory (shared), ipc (GPU memory), resident (kept)");
  app.add_option("--memory_socket", flags.memory_socket,
                 "The server's memory socket, for --source memory and ipc, and --results shared and gpu")
      ->option_text("PATH")
      ->excludes(app.get_option("--server"));
  app.add_option("--op", flags.op,
                 "Operators, separated by commas; all are computed in one pass (see `warpfold info`)")
      ->transform(OperatorsValidator())
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--dtype", [&flags](const std::string& name) { flags.type = *ElementTypeByName(name); },
         "Element type (default float32)")
      ->transform(TypeValidator());
  CLI::Option* bytes =
      app.add_option("--bytes", flags.bytes,
                     "Bytes of each array: default 1 GiB, above 64 KiB if streamed; 4096 for --method array")
          ->transform(UnsignedValidator("N"));
  app.add_option("--chunk_bytes", flags.chunk_bytes,
                 "Array bytes in each message of a stream: a power of 2, 4096 to 4194304")
      ->transform(ChunkValidator())
      ->capture_default_str();
  CLI::Option* segments = app.add_option("--segment_length", flags.segment_length,
                                         "One result per N elements of an array, instead of one per array")
                              ->transform(PositiveValidator("N"));
  AddChoice(app, "--results", flags.results, ResultPlaces(),
            "Place of these results: sent, shared (written to shared memory), gpu (to GPU memory)")
      ->needs(segments);
  app.add_option("--memory_bytes", flags.memory_bytes,
                 "Memory from which all callers' arrays are taken; enlarged if it is too small")
      ->transform(UnsignedValidator("N"))
      ->capture_default_str();
  app.add_option("--streams", flags.streams,
                 "Connections to stripe each array over; 0 for as many as the server advises")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  app.add_option("--callers", flags.callers, "Concurrent callers, each with its own connections and arrays")
      ->check(CLI::Range(1, kMaxCallers))
      ->capture_default_str();
  return bytes;
}

void AddMeasurement(CLI::App& app, BenchFlags& flags) {
  app.add_option("--duration", flags.duration_s, "Seconds per round for each server; at least one call")
      ->check(NumberValidator())
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  app.add_option("--warm_up", flags.warm_up_s, "Seconds of load before the first round, for each server")
      ->check(NumberValidator())
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  app.add_option("--rounds", flags.rounds, "Number of rounds")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--pause_ms", flags.pause_ms,
                 "Milliseconds that a caller pauses between two calls (default 0)")
      ->check(NumberValidator())
      ->check(CLI::Range(0.0, 60'000.0));
  CLI::Option* json = app.add_flag("--json", flags.json, "Print one JSON object per server");
  app.add_flag("--csv", flags.csv, "Print CSV with a header line")->excludes(json);
  app.add_option("--commit", flags.commit, "Commit that was built, for JSON and CSV");
}

}  // namespace

std::string MethodName(BenchMethod method) { return NameOf(method, Methods()); }
std::string SourceName(BenchSource source) { return NameOf(source, Sources()); }
std::string ResultsName(BenchResults results) { return NameOf(results, ResultPlaces()); }

void AddBench(CLI::App& app, BenchFlags& flags) {
  app.footer(kFooter);
  AddSides(app, flags);
  CLI::Option* bytes = AddLoad(app, flags);
  AddMeasurement(app, flags);
  app.callback([&flags, bytes] { ValidateAndFillDefaults(flags, bytes->count() > 0); });
}

void AddBenchSink(CLI::App& app, BenchSinkFlags& flags) {
  std::map<std::string, SinkKind> kinds;
  for (const auto& [kind, name] : kSinks) kinds[name] = kind;
  app.add_option("KIND", flags.kind, "What to do with the bytes")
      ->required()
      ->transform(CLI::CheckedTransformer(kinds).description("NAME"));
  app.add_option("--listen", flags.listen, "127.0.0.1:port (0: a free one) or unix:/path")->required();
}

}  // namespace warpfold::cli
