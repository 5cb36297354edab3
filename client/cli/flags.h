// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The command line: what was asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "client/array.h"
#include "client/cli/bench/flags.h"
#include "client/options.h"
#include "proto/shared/steady_time.h"

namespace warpfold::cli {

// Exit codes of every command.
inline constexpr int kExitOk = 0;
// A server returned an error or cannot be reached, or the time is up.
inline constexpr int kExitServerError = 1;
// The client found a fault in the command line or the input, or standard output accepts no more.
inline constexpr int kExitUsage = 2;

struct ReduceFlags {
  Spec spec;
  std::optional<ElementType> type;  // --dtype
  // The deadline of the whole command, which begins when its flags are read.
  absl::Time deadline = SteadyNow() + kDefaultTimeout;
  // As in CallOptions.
  int streams = 0;
  bool checksum = false;
  std::string request_id;
  bool json = false;
  bool progress = false;              // even if standard error is not a terminal
  std::optional<std::string> member;  // of .npz files
  // Exactly one of these four.
  std::vector<std::string> inputs;   // paths, in the array's order, or "-" alone
  std::optional<std::string> array;  // the token of one that the server keeps
  std::optional<std::uint64_t> iota;
  std::optional<std::uint64_t> random;
  std::uint64_t seed = 0;
  // At most one of these three splits the array into segments, which have separate results.
  std::uint64_t segment_length = 0;            // 0 for none
  std::optional<std::string> segment_lengths;  // a path
  std::optional<std::int64_t> axis;            // of an .npy file
  std::uint64_t first = 0;                     // element of `array`
  std::optional<std::uint64_t> count;          // of its elements; from `first` to its end unless given
};

struct PutFlags {
  std::string input;  // a path
  std::optional<ElementType> type;
  std::optional<MatrixShape> matrix_shape;
  std::string owner;
  absl::Duration time_to_live;                          // zero: the server's default
  absl::Time deadline = SteadyNow() + kDefaultTimeout;  // as ReduceFlags'
  bool json = false;
};

struct ArraysFlags {
  std::string owner;
  bool json = false;
};

struct DeleteFlags {
  std::string array;  // a token
};

struct InfoFlags {
  bool json = false;
};

struct HealthFlags {};

// The flags that every command has.
struct ServerFlags {
  // One server, or several that share an array.
  std::vector<std::string> targets = {kDefaultTarget};
  std::string tls_ca;  // paths of PEM files; plaintext if empty
  std::string tls_cert;
  std::string tls_key;
};

struct CommandLine {
  ServerFlags server;
  std::variant<ReduceFlags, PutFlags, ArraysFlags, DeleteFlags, InfoFlags, HealthFlags, BenchFlags,
               BenchSinkFlags>
      command;
};

// Either a command, or what to exit with after help (on standard output) or an error (on standard error) was
// printed.
std::variant<CommandLine, int> ParseCommandLine(int argc, const char* const* argv);

}  // namespace warpfold::cli
