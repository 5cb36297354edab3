// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/calls/translate.h"
#include "client/cli/deadline.h"
#include "client/cli/output.h"
#include "client/cli/plain_words.h"
#include "client/cli/validators.h"
#include "client/connections/target_names.h"
#include "proto/shared/command_line.h"
#include "proto/shared/steady_time.h"

namespace warpfold::cli {
namespace {

constexpr char kReduceFooter[] = R"(INPUT is one of
  FILE  an .npy file, whatever its name: element type and shape are read from it. Its elements are scalars,
        whatever the shape, unless --matrix is given, or matrix_product or affine_compose (rows of 1x2) is
        requested: then the last two dimensions are the matrix.
  FILE  an .npz archive: its only member, or the one that --member names, is read like an .npy file
  FILE  any other, which must not begin like an archive: raw little-endian elements; needs --dtype
  FILE FILE...  several of these, of one element type: one array, in this order
  -     standard input, sent while it is read: raw elements with --dtype, an .npy file without
If a FILE changes while it is read, the command fails: its length and modification time are compared when the
response has arrived. Writes through mmap may go unnoticed, on tmpfs always. Standard input is not checked.

--random makes element i of output number i of splitmix64 seeded with S, that is of
  z = S + (i + 1) * 0x9e3779b97f4a7c15;  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;  z = z ^ (z >> 31)        (modulo 2^64)
Integers are the low bits of z, bool is the highest bit, and floats with p bits of precision are
(z >> (64 - p)) / 2^p: p is 53 for float64, 24 for float32, 11 for float16 and 8 for bfloat16.

Segments: the array is cut into consecutive parts, each with its own results, the same as if it were reduced
alone: indexes count from the segment's first element. Elements are scalars, not matrices. INPUT is one file
that is not compressed, or --array, --iota or --random; not standard input. The output has one line per
segment: the segment's number, then the same fields as for a whole array; with --json, one object per line.
Lines are printed while the array is sent: they are all right only if the exit code is 0. A segment without a
result (overflow, no elements) shows the reason instead, and the exit code is 1.

The output has one line per operator, 'op value': matrices as rows in brackets, argmin and argmax with
'index I' after the value, max_subarray_sum with 'index I end_index E'; minmax and describe, which have
several values, with a name before each. With --json it is one object: integers are numbers of up to 64 bits,
and what JSON has no number for is the string "nan", "inf" or "-inf".
An operator without a value (overflow, no elements) sets the exit code to 1, and its error goes to standard
error; with --json the object has an 'error' with code, reason and message instead of the value. If no
operator has a value, the call has failed, and nothing goes to standard output, not even an object with
--json.
The error of a call is one line, 'warpfold: CODE (REASON): text'; '(REASON)' is omitted if there is none.
Exit codes: 0 success; 1 the server returned an error or cannot be reached, or the time limit has passed;
2 usage error, unreadable input, or standard output cannot be written.)";

// Checks of an option's text, with CLI11's conventions: an empty string is success.
std::string ToAlgorithm(std::string& text) {
  const std::vector<std::string> names = AlgorithmNames();
  if (std::find(names.begin(), names.end(), text) != names.end()) return "";
  return absl::StrCat("unknown algorithm '", text, "'; there are ", absl::StrJoin(names, ", "));
}

std::string ToTargets(std::string& text) {
  for (const absl::string_view name : absl::StrSplit(text, ',')) {
    if (name.empty()) return "'" + text + "' has an empty name in it";
    const absl::string_view fault = FaultOfTarget(name);
    if (!fault.empty()) return absl::StrCat("'", name, "': ", fault);
  }
  return "";
}

// `of_several` says what the command does with several servers; it is empty if the command needs one.
void AddServer(CLI::App& app, ServerFlags& flags, const std::string& of_several) {
  const std::string help = "Server address, host:port or unix:/path";
  app.add_option_function<std::string>(
         "--target", [&flags](const std::string& text) { flags.targets = absl::StrSplit(text, ','); },
         of_several.empty() ? help : absl::StrCat(help, ". Several, separated by commas: ", of_several))
      ->transform(CLI::Validator(ToTargets, of_several.empty() ? "NAME" : "NAME,..."))
      ->default_str(absl::StrCat("WARPFOLD_TARGET, or ", kDefaultTarget));
  CLI::Option* ca =
      app.add_option("--tls_ca", flags.tls_ca,
                     "Authority (PEM) that must have signed the server's certificate; enables TLS");
  CLI::Option* cert = app.add_option("--tls_cert", flags.tls_cert,
                                     "Certificate chain of the client (PEM), if the server asks for one");
  CLI::Option* key = app.add_option("--tls_key", flags.tls_key, "Private key of --tls_cert (PEM)");
  for (CLI::Option* file : {ca, cert, key}) file->check(CLI::ExistingFile);
  cert->needs(key)->needs(ca);
  key->needs(cert);
}

// The environment's target, if the command has the flag and was not given it. CLI11 is not used for this: its
// later releases ignore a target that is wrong.
void TakeTargetOfEnvironment(const CLI::App& app, ServerFlags& flags) {
  const CLI::Option* const flag = app.get_subcommands().front()->get_option_no_throw("--target");
  if (flag == nullptr || flag->count() > 0) return;
  const char* const named = std::getenv("WARPFOLD_TARGET");
  std::string text = named == nullptr ? "" : named;
  if (text.empty()) return;
  if (const std::string complaint = ToTargets(text); !complaint.empty())
    throw CLI::ValidationError("WARPFOLD_TARGET", complaint);
  flags.targets = absl::StrSplit(text, ',');
}

void AddTimeout(CLI::App& app, absl::Time& deadline) {
  app.add_option_function<double>(
         "--timeout", [&deadline](double seconds) { deadline = SteadyNow() + absl::Seconds(seconds); },
         absl::StrCat("Time limit in seconds, including reading the input (default ",
                      absl::ToInt64Seconds(kDefaultTimeout), ")"))
      ->option_text("SECONDS")
      ->check(SecondsValidator());
}

// How the array is split into segments.
void AddSegments(CLI::App& app, ReduceFlags& flags, CLI::Option& streams) {
  CLI::Option* length = app.add_option("--segment_length", flags.segment_length,
                                       "One result per N elements: see Segments, below")
                            ->transform(PositiveValidator("N"));
  CLI::Option* lengths =
      app.add_option(
             "--segment_lengths", flags.segment_lengths,
             "One result per segment, with lengths from FILE: a one-dimensional .npy file of int64 or uint64")
          ->option_text("FILE")
          ->excludes(length);
  CLI::Option* axis =
      app.add_option("--axis", flags.axis,
                     "One result per row along the last axis of an .npy file: the number of that axis, or -1")
          ->option_text("INT")
          ->transform(IntegerValidator())
          ->excludes(length)
          ->excludes(lengths);
  for (CLI::Option* cut : {length, lengths, axis}) cut->excludes(&streams);
}

// What operators let one choose.
void AddParameters(CLI::App& app, Spec& spec) {
  // This uses a callback: add_flag would write false if the flag is absent, and so name another policy.
  app.add_flag_callback(
      "--wrap", [&spec] { spec.wrap_overflow = true; },
      "Let integer sum, product, sum_of_squares and describe's sum wrap around instead of failing "
      "(overflow_policy WRAP)");
  app.add_flag("--ignore-nan", spec.ignore_nan, "Skip NaN elements of floats (nan_policy IGNORE)");
  app.add_option(
         "--ddof", spec.ddof,
         "Delta degrees of freedom of variance, stddev and describe: they divide by the count minus N")
      ->option_text("N")
      ->check(NumberValidator());
  app.add_option("--modulus", spec.modulus, "Modulus of matrix_product and affine_compose of integers")
      ->transform(UnsignedValidator("M"));
}

void AddReduce(CLI::App& app, ReduceFlags& flags) {
  app.footer(kReduceFooter);
  // One text: an option with several values would take INPUT as another one.
  app.add_option_function<std::string>(
         "--op", [&flags](const std::string& text) { flags.spec.operators = absl::StrSplit(text, ','); },
         "Operators, separated by commas; all are computed in one pass (see `warpfold info`)")
      ->required()
      ->transform(OperatorsValidator());
  CLI::Option* dtype = AddDtype(app, &flags.type, "Element type (default for --iota and --random: int64)");
  CLI::Option* matrix =
      app.add_option_function<std::string>(
             "--matrix",
             [&flags](const std::string& text) { flags.spec.matrix_shape = ParseMatrixShape(text); },
             "Shape of elements that are matrices (matrix_shape): ROWSxCOLUMNS, row-major, 1x1 to 32x32")
          ->transform(MatrixShapeValidator());
  AddParameters(app, flags.spec);
  CLI::Option* streams =
      app.add_option(
             "--streams", flags.streams,
             "Connections to stripe the array over (default: what the server advises). Standard input and "
             "compressed arrays use one")
          ->check(CLI::Range(1, 64));
  AddTimeout(app, flags.deadline);
  CLI::Option* checksum =
      app.add_flag("--checksum", flags.checksum, "Send a CRC32C of the array for the server to check");
  app.add_option("--request_id", flags.request_id,
                 "Request ID in the server's log: at most 128 printable ASCII characters")
      ->option_text("TEXT");
  app.add_option(
         "--algorithm", flags.spec.algorithm,
         "Classical GPU reduction instead of the canonical one; float results then depend on the algorithm")
      ->excludes(streams)
      ->transform(CLI::Validator(ToAlgorithm, "NAME"));
  app.add_flag("--json", flags.json, "Print one JSON object, or one per segment");
  app.add_flag("--progress", flags.progress,
               "Show progress and a final summary on standard error, even if it is not a terminal");
  CLI::Option* member = app.add_option_function<std::string>(
                               "--member", [&flags](const std::string& name) { flags.member = name; },
                               "Name of the array in an .npz file")
                            ->option_text("NAME");

  CLI::Option_group& input = *app.add_option_group("Input");
  input.add_option("INPUT", flags.inputs, "Files to reduce, or - for standard input; see below");
  CLI::Option* iota = input.add_option("--iota", flags.iota,
                                       "The N elements 0, 1, 2, ..., as far as the type counts exactly");
  CLI::Option* random = input.add_option("--random", flags.random, "N pseudo-random elements");
  for (CLI::Option* count : {iota, random}) count->transform(UnsignedValidator("N"))->excludes(member);
  AddSegments(app, flags, *streams);
  CLI::Option* array = input
                           .add_option("--array", flags.array,
                                       "Array kept on the server: its token, as printed by `warpfold put`")
                           ->transform(TokenValidator());
  // These options are only for arrays that are sent.
  for (CLI::Option* of_sending : {dtype, matrix, streams, checksum, member}) array->excludes(of_sending);
  input.require_option(1);
  app.add_option("--first", flags.first,
                 "With --array: first element to reduce (default 0); indexes in results count from it")
      ->needs(array)
      ->transform(UnsignedValidator("N"));
  app.add_option("--count", flags.count, "With --array: number of elements (default: all the rest)")
      ->needs(array)
      ->transform(UnsignedValidator("N"));
  app.add_option("--seed", flags.seed, "Seed of --random (default 0)")
      ->needs(random)
      ->transform(UnsignedValidator("S"));
}

void AddPut(CLI::App& app, PutFlags& flags) {
  app.add_option("FILE", flags.input,
                 "An .npy file, or raw little-endian elements with --dtype; do not modify it during the call")
      ->required();
  AddDtype(app, &flags.type, "Element type of raw elements");
  app.add_option_function<std::string>(
         "--matrix", [&flags](const std::string& text) { flags.matrix_shape = ParseMatrixShape(text); },
         "Shape of elements that are matrices (matrix_shape): ROWSxCOLUMNS, row-major, 1x1 to 32x32")
      ->transform(MatrixShapeValidator());
  app.add_option("--owner", flags.owner, "Owner's name, for quotas and listings")->option_text("NAME");
  app.add_option_function<double>(
         "--ttl", [&flags](double seconds) { flags.time_to_live = absl::Seconds(std::ceil(seconds)); },
         "Seconds to keep the array after its last use, rounded up to whole ones; more than the server's "
         "maximum is reduced to it (default and maximum: see `warpfold info`)")
      ->option_text("SECONDS")
      ->check(SecondsValidator());
  AddTimeout(app, flags.deadline);
  app.add_flag("--json", flags.json, "Print one JSON object");
}

void AddArrays(CLI::App& app, ArraysFlags& flags) {
  app.add_option("--owner", flags.owner, "List only this owner's arrays")->option_text("NAME");
  app.add_flag("--json", flags.json, "Print one JSON object");
}

void CheckCommand(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty() || absl::StartsWith(words.front(), "-")) return;
  const auto is_named = [&words](const CLI::App* command) { return command->get_name() == words.front(); };
  if (app.get_subcommands(is_named).empty()) {
    throw CLI::ValidationError(words.front(), "there is no such command");
  }
}

// CLI11 would miss an option that is required before it noticed that its name is misspelt, and take
// "--json=true". `words` are plain ones.
void CheckOptions(const CLI::App& app, const std::vector<std::string>& words) {
  const auto is_named = [&words](const CLI::App* command) { return command->get_name() == words.front(); };
  const auto commands = words.empty() ? std::vector<const CLI::App*>() : app.get_subcommands(is_named);
  if (commands.empty()) return;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (!absl::StartsWith(words[i], "-") || words[i] == "-") continue;
    const std::string name = words[i].substr(0, words[i].find('='));
    const CLI::Option* const option = commands.front()->get_option_no_throw(name);
    if (option == nullptr) throw CLI::ValidationError(name, "there is no such option");
    if (option->get_items_expected_min() > 0) {
      ++i;  // its value
    } else if (name.size() < words[i].size()) {
      throw CLI::ValidationError(name, "takes no value");
    }
  }
}

// The complaint, and how to give several values if it is of an option that takes a list.
std::string WithHowToList(std::string complaint, const CLI::App& app) {
  const std::string name = complaint.substr(0, complaint.find(':'));
  for (const CLI::App* command : app.get_subcommands()) {
    const CLI::Option* const option = command->get_option_no_throw(name);
    const bool is_list = option != nullptr && absl::EndsWith(option->get_type_name(), ",...");
    if (is_list && absl::EndsWith(complaint, kGivenMoreThanOnce)) complaint += "; separate several by commas";
  }
  return complaint;
}

// Says what is wrong with the command line, which it quotes; or prints the help that was requested.
int Explain(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream out;
  std::ostringstream complaint;
  const bool is_answer = app.exit(error, out, complaint) == 0;  // --help, --version
  if (is_answer) return PrintAnswer(out.str());
  const DeadlineGuard guard(SteadyNow(), kExitUsage);
  for (const absl::string_view line : absl::StrSplit(complaint.str(), '\n', absl::SkipEmpty())) {
    std::cerr << Printable(WithHowToList(InPlainerWords(std::string(line)), app)) << "\n";
  }
  return kExitUsage;
}

}  // namespace

std::variant<CommandLine, int> ParseCommandLine(int argc, const char* const* argv) {
  CommandLine line;
  ReduceFlags reduce_flags;
  PutFlags put_flags;
  ArraysFlags arrays_flags;
  DeleteFlags delete_flags;
  InfoFlags info_flags;
  BenchFlags bench_flags;
  BenchSinkFlags sink_flags;

  CLI::App app("Reduces arrays on a Warpfold server.", "warpfold");
  app.set_version_flag("--version", WARPFOLD_VERSION);
  app.require_subcommand(1);
  CLI::App& reduce = *app.add_subcommand("reduce", "Reduce an array");
  CLI::App& put = *app.add_subcommand("put", "Store an array on the server, to reduce it many times");
  CLI::App& arrays = *app.add_subcommand("arrays", "List the arrays kept on the server");
  CLI::App& erase = *app.add_subcommand("delete", "Delete an array kept on the server");
  CLI::App& info = *app.add_subcommand("info", "Show the server's operators, device and limits");
  CLI::App& health = *app.add_subcommand("health", "Exit with 0 if the server accepts calls");
  CLI::App& bench = *app.add_subcommand("bench", "Measure a server's throughput and latency");
  CLI::App& sink = *app.add_subcommand("bench-sink")->group("");  // bench starts it
  AddServer(reduce, line.server, "large arrays are split among them (--array needs one)");
  AddServer(info, line.server, "the first one to respond is shown");
  AddServer(health, line.server, "one that accepts calls is enough");
  for (CLI::App* command : {&put, &arrays, &erase, &bench}) AddServer(*command, line.server, "");
  for (CLI::App* command : {&arrays, &erase, &info, &health})
    command->footer(absl::StrCat("Waits ", absl::ToInt64Seconds(kShortTimeout), " s for the server."));
  AddReduce(reduce, reduce_flags);
  AddPut(put, put_flags);
  AddArrays(arrays, arrays_flags);
  erase.add_option("TOKEN", delete_flags.array, "Token of the array, as printed by `warpfold put`")
      ->required()
      ->transform(TokenValidator());
  info.add_flag("--json", info_flags.json, "Print one JSON object");
  AddBench(bench, bench_flags);
  AddBenchSink(sink, sink_flags);

  for (CLI::App* command : {&reduce, &put, &arrays, &bench})
    ReadNumbersAsDecimal<CLI::App, CLI::Validator>(*command);

  try {
    std::vector<std::string> words = PlainWords(app, argc, argv);
    CheckCommand(app, words);
    CheckOptions(app, words);
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the end
    app.parse(std::move(words));
    TakeTargetOfEnvironment(app, line.server);
    if (bench.parsed() && bench_flags.server.empty() && line.server.targets.size() > 1)
      throw CLI::ValidationError("--target", "bench loads one server");
  } catch (const CLI::ParseError& error) {
    return Explain(app, error);
  }
  if (reduce.parsed()) line.command = std::move(reduce_flags);
  if (put.parsed()) line.command = std::move(put_flags);
  if (arrays.parsed()) line.command = std::move(arrays_flags);
  if (erase.parsed()) line.command = std::move(delete_flags);
  if (info.parsed()) line.command = info_flags;
  if (health.parsed()) line.command = HealthFlags{};
  if (bench.parsed()) line.command = std::move(bench_flags);
  if (sink.parsed()) line.command = std::move(sink_flags);
  return line;
}

}  // namespace warpfold::cli
