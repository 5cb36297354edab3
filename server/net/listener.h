// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Sockets that listen on one address of --listen.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace warpfold::server {

// Threads: one at a time.
class Listener {
 public:
  // "host:port" (port 0: a free one), or "unix:/path". A host that has several addresses is listened to on
  // each of them, and a wildcard on IPv4 and IPv6 alike. A Unix socket that nobody listens on is replaced.
  // INVALID_ARGUMENT with the address and the system's reason; UNAVAILABLE where the address, or the service
  // that knows names, may come later.
  static absl::StatusOr<Listener> Open(const std::string& address);

  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&&) = delete;
  ~Listener();

  // The address as it was given, with the port that was bound.
  const std::string& address() const { return address_; }
  bool is_unix() const;
  // Whether only processes of this machine can connect.
  bool is_local() const;
  // Non-blocking. None after Close.
  const std::vector<int>& sockets() const { return sockets_; }

  // Refuses connections from now on. Removes a Unix socket from the file system, unless another has taken its
  // place.
  void Close();

 private:
  explicit Listener(std::string address) : address_(std::move(address)) {}

  absl::Status OpenUnix();
  absl::Status OpenTcp();

  std::string address_;
  std::vector<int> sockets_;
  std::uint64_t inode_ = 0;  // of the Unix socket's file
};

}  // namespace warpfold::server
