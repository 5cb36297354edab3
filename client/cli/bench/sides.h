// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The participants: the server, and with --generated and --baseline those to compare it with.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/bench/child_process.h"
#include "client/cli/bench/flags.h"
#include "client/cli/server.h"

namespace warpfold::cli {

// The kind of caller of a side.
enum class CallerKind : std::uint8_t {
  kLibrary,    // the client library
  kGenerated,  // classes that are generated from the protocol
  kRawSocket,  // a client that does not speak gRPC
};

struct Side {
  std::string name;  // "warpfold", "generated", or that of a sink
  Server server;
  std::string memory_socket = {};  // if it has one
  CallerKind caller = CallerKind::kLibrary;
  std::optional<int> pid = {};               // of the process, if it is known
  std::optional<ChildProcess> process = {};  // if it is ours
};

// A scratch folder for Unix sockets, which is deleted with its owner, and if SIGHUP, SIGINT or SIGTERM ends
// the process. There is one at a time.
class SocketFolder {
 public:
  SocketFolder();
  ~SocketFolder();
  SocketFolder(const SocketFolder&) = delete;
  SocketFolder& operator=(const SocketFolder&) = delete;

  // Empty if it could not be made.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// "tcp" or "unix".
std::string TransportOf(const std::string& address);

// Starts what has to be started. The first side is the server; sinks use the same transport. `folder` must
// outlive the sides.
absl::StatusOr<std::vector<Side>> StartSides(const Server& server, const BenchFlags& flags,
                                             const SocketFolder& folder);

}  // namespace warpfold::cli
