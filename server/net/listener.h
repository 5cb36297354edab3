// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Sockets that listen on one address of --listen.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

struct addrinfo;

namespace warpfold::server {

// Threads: one at a time.
class Listener {
 public:
  // "host:port" (port 0: a free one), or "unix:/path". Looks up the host's name, which may take long; nobody
  // can connect yet. INVALID_ARGUMENT with the address and the system's reason; UNAVAILABLE if the address,
  // or the name service, may become available later. The same for Listen; and UNIMPLEMENTED if the system
  // does not have this kind of address.
  static absl::StatusOr<Listener> Resolve(const std::string& address);

  // If a host has several addresses, it listens on each of them that the machine has; for a wildcard, on both
  // IPv4 and IPv6. An error if another process has one of them at this port. A Unix socket that nobody
  // listens on is replaced.
  absl::Status Listen();

  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&&) = delete;
  ~Listener();

  // The address as given, with the port that was bound.
  const std::string& address() const { return address_; }
  bool is_unix() const;
  // Whether only processes on this machine can connect.
  bool is_local() const;
  // Non-blocking. None after Close.
  const std::vector<int>& sockets() const { return sockets_; }

  // Refuses connections from now on. Removes a Unix socket from the file system, unless another process's
  // socket has replaced it.
  void Close();

 private:
  explicit Listener(std::string address) : address_(std::move(address)) {}

  absl::Status ListenUnix();
  absl::Status ListenTcp();
  absl::Status ListenOnFound(int port);
  // The status with the address in front of the reason.
  absl::Status Named(const absl::Status& status) const;

  std::string address_;
  std::shared_ptr<addrinfo> found_;  // the host's addresses; null for a Unix socket
  std::vector<int> sockets_;
  std::uint64_t inode_ = 0;  // of the Unix socket's file
};

}  // namespace warpfold::server
