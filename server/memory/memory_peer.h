// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One client on the memory socket: its requests, and the registrations that end with it.
//
// Threads: the memory socket's only.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/memory/registrar.h"
#include "server/memory/unix_socket.h"
#include "warpfold/v1/memory.pb.h"

namespace warpfold::server {

inline constexpr std::size_t kMaxRegistrations = 1024;  // of one connection

class MemoryPeer {
 public:
  // `registrar` must outlive the connection, which `*user` has made at `now`. `user` lives until the socket
  // is closed, which may be long after the connection's destruction.
  MemoryPeer(FileDescriptor socket, std::shared_ptr<const uid_t> user, Registrar& registrar, absl::Time now)
      : socket_(std::move(socket)), user_(std::move(user)), registrar_(registrar), last_used_(now) {}
  MemoryPeer(const MemoryPeer&) = delete;
  MemoryPeer& operator=(const MemoryPeer&) = delete;
  // Gives back what was registered.
  ~MemoryPeer();

  // Answers one request, if one has come. False where the client is gone, does not take its answers, or has
  // sent a descriptor that is not of a memfd: the connection should then be destroyed.
  bool Serve(absl::Time now);

  // When it last had something registered; the infinite future while it has.
  absl::Time last_used() const { return tokens_.empty() ? last_used_ : absl::InfiniteFuture(); }
  int fd() const { return socket_.get(); }

 private:
  v1::MemoryResponse Answer(const Packet& packet);
  absl::StatusOr<std::string> Act(const v1::MemoryRequest& request, const Packet& packet);
  absl::StatusOr<std::string> RegisterHost(const v1::RegisterHostMemory& request, const Packet& packet);
  absl::StatusOr<std::string> RegisterGpu(const v1::RegisterGpuMemory& request);
  absl::StatusOr<std::string> Unregister(const std::string& token);

  FileDescriptor socket_;
  const std::shared_ptr<const uid_t> user_;
  Registrar& registrar_;
  absl::Time last_used_;
  std::vector<std::string> tokens_;
};

}  // namespace warpfold::server
