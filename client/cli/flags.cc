// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
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
        asked for: then the last two dimensions are the matrix.
  FILE  an .npz archive: as the .npy file of its only member, or of the one that --member names
  FILE  any other: raw little-endian elements; needs --dtype
  FILE FILE...  several of these, of one type, are one array in this order
  -     standard input, sent while it is read: raw elements with --dtype, an .npy file without
A FILE that is written to while it is read has no value: its length and its time of modification are compared
when the answer has come. Writes through a map show in them late, and on tmpfs never. '-' takes what it reads.

--random makes element i of output number i of splitmix64 seeded with S, that is of
  z = S + (i + 1) * 0x9e3779b97f4a7c15;  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;  z = z ^ (z >> 31)        (modulo 2^64)
integers are its low bits, bool its highest one, and floats of p bits of precision (z >> (64 - p)) / 2^p: p is
53 for float64, 24 for float32, 11 for float16 and 8 for bfloat16.

Segments: the array is cut into consecutive parts, and each has results of its own, those that it would have
alone. Elements are scalars then, not matrices. Answers are one line per segment, its number and then what
there is in the lines of an array; with --json an object per line. They are printed while the array is sent:
only an exit code of 0 says that all are right. Segments without a result (overflow, no elements) have an
error's reason for it, and make the code 1.

Answers are one line per operator, 'op value': matrices as rows in brackets, argmin and argmax with
'index I' after the value, max_subarray_sum with 'index I end_index E'; minmax and describe, which have
several values, with a name before each. With --json they are one object.
An operator without a value (overflow, no elements) makes the code 1, and its error goes to standard error;
with --json the object has an 'error' of code, reason and message instead of its value. Where no operator has
a value the call has failed, and nothing goes to standard output: with --json, too, there is no object then.
An error of a call is a line 'warpfold: CODE (REASON): text'; those that have no reason omit the parentheses.
Exit codes: 0; 1 the server answered an error or cannot be reached, or the time is up; 2 usage, unreadable
input, or a standard output that takes no more.)";

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

void AddServer(CLI::App& app, ServerFlags& flags) {
  app.add_option_function<std::string>(
         "--target", [&flags](const std::string& text) { flags.targets = absl::StrSplit(text, ','); },
         "Server, as host:port or unix:/path; or several, separated by commas, that share an array")
      ->transform(CLI::Validator(ToTargets, "NAME,..."))
      ->default_str(absl::StrCat("WARPFOLD_TARGET, or ", kDefaultTarget));
  CLI::Option* ca = app.add_option("--tls_ca", flags.tls_ca,
                                   "Use TLS; the server's certificate must be signed by this authority, PEM");
  CLI::Option* cert =
      app.add_option("--tls_cert", flags.tls_cert, "Certificate chain that the server may ask for, PEM");
  CLI::Option* key = app.add_option("--tls_key", flags.tls_key, "Its private key, PEM");
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
         absl::StrCat("Give up so many seconds after the start, reading the input included; ",
                      absl::ToInt64Seconds(kDefaultTimeout), " unless given"))
      ->option_text("SECONDS")
      ->check(SecondsValidator());
}

// How the array is split into segments.
void AddSegments(CLI::App& app, ReduceFlags& flags, CLI::Option& streams) {
  CLI::Option* length = app.add_option("--segment_length", flags.segment_length,
                                       "A result for each N elements: see Segments, below")
                            ->transform(PositiveValidator("N"));
  CLI::Option* lengths =
      app.add_option("--segment_lengths", flags.segment_lengths,
                     "The same for segments of these lengths: a one-dimensional .npy file of int64 or uint64")
          ->option_text("FILE")
          ->excludes(length);
  CLI::Option* axis = app.add_option("--axis", flags.axis,
                                     "The same along this axis of an .npy file, which must be its last one")
                          ->option_text("INT")
                          ->transform(IntegerValidator())
                          ->excludes(length)
                          ->excludes(lengths);
  for (CLI::Option* cut : {length, lengths, axis}) cut->excludes(&streams);
}

// This uses a callback: add_flag would write false if the flag is absent, and so name another policy.
void AddWrap(CLI::App& app, Spec& spec) {
  app.add_flag_callback(
      "--wrap", [&spec] { spec.wrap_overflow = true; },
      "sum, product and sum_of_squares of integers, describe's sum: wrap around");
}

void AddReduce(CLI::App& app, ReduceFlags& flags) {
  app.footer(kReduceFooter);
  // One text: an option with several values would take INPUT as another one.
  app.add_option_function<std::string>(
         "--op", [&flags](const std::string& text) { flags.spec.operators = absl::StrSplit(text, ','); },
         "Operators, separated by commas, over one pass of the data")
      ->required()
      ->transform(OperatorsValidator());
  CLI::Option* dtype = AddDtype(app, &flags.type, "Element type; int64 for --iota and --random unless given");
  CLI::Option* matrix =
      app.add_option_function<std::string>(
             "--matrix",
             [&flags](const std::string& text) { flags.spec.matrix_shape = ParseMatrixShape(text); },
             "Elements are ROWSxCOLUMNS matrices, row-major, of 1x1 to 32x32")
          ->transform(MatrixShapeValidator());
  AddWrap(app, flags.spec);
  app.add_flag("--ignore-nan", flags.spec.ignore_nan, "Float operators: skip NaN elements");
  app.add_option("--ddof", flags.spec.ddof, "variance, stddev, describe: divide by the count less N")
      ->option_text("N")
      ->check(NumberValidator());
  app.add_option("--modulus", flags.spec.modulus,
                 "matrix_product, affine_compose over integers: compute modulo M")
      ->transform(UnsignedValidator("M"));
  CLI::Option* streams =
      app.add_option(
             "--streams", flags.streams,
             "Connections to stripe the array over, 1 to 64; as the server advises unless given. '-' goes "
             "over one")
          ->check(CLI::Range(1, 64));
  AddTimeout(app, flags.deadline);
  CLI::Option* checksum =
      app.add_flag("--checksum", flags.checksum, "Let the server check a CRC32C of the array");
  app.add_option("--request_id", flags.request_id,
                 "Appears in the server's log; at most 128 printable ASCII characters")
      ->option_text("TEXT");
  app.add_option("--algorithm", flags.spec.algorithm,
                 "A classical GPU reduction instead of the canonical one; floats then round in its way")
      ->excludes(streams)
      ->transform(CLI::Validator(ToAlgorithm, "NAME"));
  app.add_flag("--json", flags.json, "Answer with one JSON object");
  app.add_flag(
      "--progress", flags.progress,
      "Tell how far it is, and at the end what was done, on standard error also if that is no terminal");
  CLI::Option* member = app.add_option_function<std::string>(
                               "--member", [&flags](const std::string& name) { flags.member = name; },
                               "Of .npz files: the array of this name")
                            ->option_text("NAME");

  CLI::Option_group& input = *app.add_option_group("Input");
  input.add_option("INPUT", flags.inputs, "What to reduce; see below");
  CLI::Option* iota = input.add_option("--iota", flags.iota, "The N elements 0, 1, 2, ...");
  CLI::Option* random = input.add_option("--random", flags.random, "N pseudo-random elements");
  for (CLI::Option* count : {iota, random}) count->transform(UnsignedValidator("N"))->excludes(member);
  AddSegments(app, flags, *streams);
  CLI::Option* array =
      input.add_option("--array", flags.array, "An array that the server keeps (warpfold put)")
          ->transform(TokenValidator());
  // These options are only for arrays that are sent.
  for (CLI::Option* of_sending : {dtype, matrix, streams, checksum, member}) array->excludes(of_sending);
  input.require_option(1);
  app.add_option("--first", flags.first, "Of --array: from this element on")
      ->needs(array)
      ->transform(UnsignedValidator("N"));
  app.add_option("--count", flags.count, "Of --array: so many elements; all that follow unless given")
      ->needs(array)
      ->transform(UnsignedValidator("N"));
  app.add_option("--seed", flags.seed, "Seed of --random")->needs(random)->transform(UnsignedValidator("S"));
}

void AddPut(CLI::App& app, PutFlags& flags) {
  app.add_option("FILE", flags.input,
                 "An .npy file, or raw little-endian elements with --dtype; not to be written to meanwhile")
      ->required();
  AddDtype(app, &flags.type, "Element type of raw elements");
  app.add_option_function<std::string>(
         "--matrix", [&flags](const std::string& text) { flags.matrix_shape = ParseMatrixShape(text); },
         "Elements are ROWSxCOLUMNS matrices, row-major, of 1x1 to 32x32")
      ->transform(MatrixShapeValidator());
  app.add_option("--owner", flags.owner, "Whose array it is, for quotas and lists")->option_text("NAME");
  app.add_option_function<double>(
         "--ttl", [&flags](double seconds) { flags.time_to_live = absl::Seconds(seconds); },
         "How long it stays after its last use; as the server has it unless given")
      ->option_text("SECONDS")
      ->check(SecondsValidator());
  AddTimeout(app, flags.deadline);
  app.add_flag("--json", flags.json, "Answer with one JSON object");
}

void AddArrays(CLI::App& app, ArraysFlags& flags) {
  app.add_option("--owner", flags.owner, "Only this owner's")->option_text("NAME");
  app.add_flag("--json", flags.json, "Answer with one JSON object");
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
  CLI::App& put = *app.add_subcommand("put", "Leave an array with the server, for many reductions");
  CLI::App& arrays = *app.add_subcommand("arrays", "The arrays that the server keeps");
  CLI::App& erase = *app.add_subcommand("delete", "Have the server forget an array");
  CLI::App& info = *app.add_subcommand("info", "What the server can do, its device and its limits");
  CLI::App& health = *app.add_subcommand("health", "Exit with 0 if the server takes calls");
  CLI::App& bench = *app.add_subcommand("bench", "Load a server, and say how fast it was");
  CLI::App& sink = *app.add_subcommand("bench-sink")->group("");  // bench starts it
  for (CLI::App* command : {&reduce, &put, &arrays, &erase, &info, &health, &bench})
    AddServer(*command, line.server);
  AddReduce(reduce, reduce_flags);
  AddPut(put, put_flags);
  AddArrays(arrays, arrays_flags);
  erase.add_option("TOKEN", delete_flags.array, "As `warpfold put` printed it")
      ->required()
      ->transform(TokenValidator());
  info.add_flag("--json", info_flags.json, "Answer with one JSON object");
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
