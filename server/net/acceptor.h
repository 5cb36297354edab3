// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Accepts connections and hands them over: as many as there is room for, and at most half of that from one
// peer. Unlike gRPC's own listener, it goes on after descriptors have run out (docs/adr/0030).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "server/net/connections.h"
#include "server/net/listener.h"

namespace warpfold::server {

// Threads: Start, Stop and the destructor from one.
class Acceptor {
 public:
  // Takes over a connected, non-blocking socket. Called on the acceptor's thread.
  using HandOver = std::function<void(const Listener& listener, int socket, int descriptor)>;

  Acceptor(std::vector<Listener> listeners, std::size_t max_connections, HandOver hand_over);
  ~Acceptor();

  // Accepts from now on, on a thread of its own. Throws std::system_error if there is no thread.
  void Start();

  // Accepts no more, and closes the listeners. Connections stay.
  void Stop();

  // Threads: any.
  ConnectionCounts counts() const;

 private:
  void Run();
  // Counts the connections that are open, once a second.
  void CountOpen();
  // Accepts all waiting connections of a socket; false if the system is short of something, so that it is
  // better to pause.
  bool AcceptAll(const Listener& listener, int socket);
  void Accepted(const Listener& listener, int socket, int descriptor);
  // Used when there is no descriptor left: accepts one connection and closes it, so that its client learns of
  // it.
  bool RefuseOne(int socket);
  // Closes a connection, counts it, and says why.
  static void Refuse(int descriptor, std::atomic<std::uint64_t>& count, const std::string& why);

  std::vector<Listener> listeners_;
  const std::size_t max_connections_;
  const HandOver hand_over_;
  Connections connections_;
  int stop_event_ = -1;
  std::atomic<bool> stops_ = false;
  int reserve_ = -1;  // a descriptor to give up when there is no other
  std::chrono::steady_clock::time_point next_count_;
  std::atomic<std::uint64_t> open_ = 0;
  std::atomic<std::uint64_t> accepted_ = 0;
  std::atomic<std::uint64_t> beyond_limit_ = 0;
  std::atomic<std::uint64_t> left_calls_ = 0;
  std::atomic<std::uint64_t> no_descriptors_ = 0;
  std::thread thread_;
};

}  // namespace warpfold::server
