// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One client on the memory socket: its requests, and the registrations that end with it.
//
// Threads: the memory socket's only.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/memory/registrar.h"
#include "server/memory/unix_socket.h"
#include "warpfold/v1/memory.pb.h"

namespace warpfold::server {

inline constexpr std::size_t kMaxRegistrations = 1024;  // of one connection

class MemoryPeer {
 public:
  // `registrar` must outlive the connection.
  MemoryPeer(FileDescriptor socket, Registrar& registrar)
      : socket_(std::move(socket)), registrar_(registrar) {}
  MemoryPeer(const MemoryPeer&) = delete;
  MemoryPeer& operator=(const MemoryPeer&) = delete;
  // Gives back what was registered.
  ~MemoryPeer();

  // Answers one request, if one has come. False where the client is gone, or does not take its answers: the
  // connection should then be destroyed.
  bool Serve();

  int fd() const { return socket_.get(); }

 private:
  v1::MemoryResponse Answer(const Packet& packet);
  absl::StatusOr<std::string> Act(const v1::MemoryRequest& request, const Packet& packet);
  absl::StatusOr<std::string> RegisterHost(const v1::RegisterHostMemory& request, const Packet& packet);
  absl::StatusOr<std::string> RegisterGpu(const v1::RegisterGpuMemory& request);
  absl::StatusOr<std::string> Unregister(const std::string& token);

  const FileDescriptor socket_;
  Registrar& registrar_;
  std::vector<std::string> tokens_;
};

}  // namespace warpfold::server
