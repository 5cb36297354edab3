// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The open connections, and who has how many of them. Whoever was given a connection closes it without saying
// so: a connection is taken for closed once its descriptor is another file's, or none.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <string>

namespace warpfold::server {

// Threads: one at a time.
class Connections {
 public:
  Connections(std::size_t most, std::size_t most_of_a_peer) : most_(most), most_of_a_peer_(most_of_a_peer) {}

  // Whether `peer` may have one more.
  bool HasRoom(const std::string& peer);

  void Add(int descriptor, const std::string& peer);

  // At the last look: those that have been closed since count still.
  std::size_t count() const { return connections_.size(); }
  std::size_t CountOf(const std::string& peer) const;
  // Takes out those that are closed.
  void Look();

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
  std::chrono::steady_clock::time_point looked_at_;
};

// Whom a connection counts for: the address, of IPv6 the network of 64 bits; "unix:" and the user's number.
std::string PeerOf(int descriptor);

}  // namespace warpfold::server
