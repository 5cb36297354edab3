// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A network that goes dead: it forwards a number of bytes between a client and a server, then stops reading.
// Sockets stay open, as with a peer that was suspended.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace warpfold {

class StallingProxy {
 public:
  // Listens on a free port of the loopback interface, or on a Unix socket at `path`.
  explicit StallingProxy(int upstream_port, const std::string& path = "");
  ~StallingProxy();
  StallingProxy(const StallingProxy&) = delete;
  StallingProxy& operator=(const StallingProxy&) = delete;

  const std::string& target() const { return target_; }

  // Forwards this many more bytes, over existing and new connections together.
  void StallAfter(std::int64_t bytes) { bytes_left_ = bytes; }
  void Resume() { bytes_left_ = kUnlimited; }

  // Closes further connections at once when it has accepted this many, like a server that has no more places.
  void AcceptAtMost(int connections) { most_ = connections; }
  int refused() const { return refused_; }

  // From now on reads what comes from either side and throws it away, like a machine that seems to have lost
  // power when all bytes had been acknowledged.
  void Swallow() { swallows_ = true; }

 private:
  static constexpr std::int64_t kUnlimited = std::int64_t{1} << 62;

  // Forwards what can be forwarded without blocking, until destruction.
  void Run();
  void Accept();
  // False if either end is closed.
  bool Forward(int from, int to);

  const int upstream_port_;
  std::string target_;
  int listener_ = -1;
  std::vector<std::pair<int, int>> pairs_;  // client and server sockets
  std::atomic<std::int64_t> bytes_left_ = kUnlimited;
  std::atomic<bool> swallows_ = false;
  std::atomic<int> most_ = 1 << 30;
  std::atomic<int> refused_ = 0;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

}  // namespace warpfold
