// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The command line of warpfold-server.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace warpfold::server {

enum class LogFormat { kText, kJson };
enum class LogLevel { kDebug, kInfo, kWarning, kCritical };

struct Flags {
  std::vector<std::string> listen = {"127.0.0.1:50051"};
  std::string device = "auto";
  int slots = 0;                 // 0: two for each shard
  std::uint64_t slot_bytes = 0;  // 0: what suits the device
  int cpu_threads = 0;           // 0: one per processor that the process may use
  int max_concurrent_reductions = 64;
  std::size_t max_connections = 0;  // 0: as many as the limit on open files allows
  std::uint64_t max_stream_bytes = std::uint64_t{1} << 40;
  std::int64_t max_stream_seconds = 3600;
  std::int64_t idle_timeout_seconds = 60;
  std::uint64_t resident_bytes = 0;        // for arrays that stay; 0: none
  std::uint64_t resident_owner_bytes = 0;  // 0: no less than resident_bytes
  std::string memory_socket;               // a path; none if empty
  std::vector<std::uint32_t> memory_socket_users;
  std::uint64_t max_registered_bytes = std::uint64_t{1} << 40;
  std::int64_t drain_seconds = 25;  // within the 30 s that Kubernetes gives by default
  std::string tls_cert;             // paths of PEM files
  std::string tls_key;
  std::string tls_client_ca;
  bool allow_insecure = false;
  std::string allow;  // a path; if empty, everybody may call everything
  LogFormat log_format = LogFormat::kText;
  LogLevel log_level = LogLevel::kInfo;
  std::string admin_listen;  // host:port; none if empty
  bool reflection = false;
  bool channelz = false;

  // All flags with their effective values, for people.
  std::vector<std::pair<std::string, std::string>> all;
};

// Reads the flags, or returns the exit code to end with: 0 after --help and --version, 2 after an invalid
// flag, which `error` then names with its range.
std::optional<int> ParseFlags(int argc, const char* const* argv, Flags* flags, std::ostream& out,
                              std::ostream& error);

}  // namespace warpfold::server
