// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The open connections, and how many of them each peer has. gRPC closes descriptors silently: a connection
// counts as closed when its descriptor is no longer open, or refers to another file.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace warpfold::server {

struct ConnectionCounts {
  std::uint64_t open = 0;   // counted at most a second ago
  std::uint64_t limit = 0;  // the most that may be open
  // Since the start.
  std::uint64_t accepted = 0;
  std::uint64_t floods = 0;  // of these, closed because of what was sent
  // Closed at once, since the start.
  std::uint64_t beyond_limit = 0;    // of all connections, or of a peer's
  std::uint64_t left_calls = 0;      // of peers that have cancelled, or left behind, too many calls
  std::uint64_t no_descriptors = 0;  // there was none left
};

// Threads: one at a time.
class Connections {
 public:
  Connections(std::size_t most, std::size_t most_of_a_peer) : most_(most), most_of_a_peer_(most_of_a_peer) {}

  // Whether `peer` may have one more.
  bool HasRoom(const std::string& peer);

  void Add(int descriptor, const std::string& peer);

  // The number of connections that were open at the last RemoveClosed or were added since.
  std::size_t count() const { return connections_.size(); }
  std::size_t CountOf(const std::string& peer) const;
  // Removes those that are closed.
  void RemoveClosed();

 private:
  struct Connection {
    std::string peer;
    dev_t device;
    ino_t inode;
  };

  void Remove(std::map<int, Connection>::iterator at);

  const std::size_t most_;
  const std::size_t most_of_a_peer_;
  std::map<int, Connection> connections_;  // by descriptor
  std::map<std::string, std::size_t> of_peers_;
  std::chrono::steady_clock::time_point checked_at_;
};

// The peer to which a connection belongs: the host of its address (server/core/admission/party.h), and
// "unix:" with the user's number for a Unix socket.
std::string PeerOf(int descriptor);

// The same for people: an IPv4 address as it is.
std::string AddressOf(int descriptor);

}  // namespace warpfold::server
