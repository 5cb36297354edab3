// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The flags of `warpfold bench`, and of the sinks that it starts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "client/array.h"
#include "client/cli/bench/sink_kind.h"

namespace CLI {
class App;
}

namespace warpfold::cli {

// The kind of each call of the load.
enum class BenchMethod : std::uint8_t {
  kReduce,  // an array as a stream of chunks, or as several at once
  kArray,   // an array in one message
  kInfo,    // GetServerInfo
  kHealth,  // an empty call: the health service's Check
};

// How the array's bytes get to the server.
enum class BenchSource : std::uint8_t {
  kChunks,    // over the wire
  kMemory,    // shared memory that is registered with the server
  kIpc,       // memory of the server's GPU that belongs to this process
  kResident,  // arrays that were put into the server's device memory
};

// Where results of segments go.
enum class BenchResults : std::uint8_t {
  kSent,    // over the wire
  kShared,  // to shared memory
  kGpu,     // to memory of the server's GPU that belongs to this process
};

struct BenchFlags {
  std::string server;  // the executable to start; empty: the one at --target
  std::string server_flags;
  std::optional<int> server_pid;
  std::string transport = "tcp";  // of a server that is started; or "unix"

  BenchMethod method = BenchMethod::kReduce;
  BenchSource source = BenchSource::kChunks;
  std::string memory_socket;  // of a server that is not started here
  std::string op = "sum";
  ElementType type = ElementType::kFloat32;
  std::uint64_t bytes = 0;  // of each call's array
  std::uint64_t chunk_bytes = std::uint64_t{1} << 20;
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;  // that the arrays are parts of
  std::uint64_t segment_length = 0;  // elements, of results for each; 0 for one of the whole array
  BenchResults results = BenchResults::kSent;
  int streams = 1;  // 0: as many as the server advises
  int callers = 1;

  double duration_s = 3;
  double warm_up_s = 0.5;
  double pause_ms = 0;
  int rounds = 3;

  bool generated = false;
  bool baseline = false;
  bool json = false;
  bool csv = false;
  std::string commit = "unknown";
};

struct BenchSinkFlags {
  SinkKind kind = SinkKind::kRawSocket;
  std::string listen;
};

std::string MethodName(BenchMethod method);
std::string SourceName(BenchSource source);
std::string ResultsName(BenchResults results);

// Add the options. Options that do not fit together are a parse error.
void AddBench(CLI::App& app, BenchFlags& flags);
void AddBenchSink(CLI::App& app, BenchSinkFlags& flags);

}  // namespace warpfold::cli
