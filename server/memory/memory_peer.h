// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One client on the memory socket: its requests, and the registrations that end with it.
//
// Threads: the memory socket's only.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/memory/memfd_sealer.h"
#include "server/memory/registrar.h"
#include "server/net/unix_socket.h"
#include "warpfold/v1/memory.pb.h"

namespace warpfold::server {

inline constexpr std::size_t kMaxRegistrations = 1024;  // of one connection

class MemoryPeer {
 public:
  // `registrar` and `sealer` must outlive the connection, which `*user` has made at `now`. `user` lives until
  // the socket is closed, which may be long after the connection's destruction. It ends when it has had
  // nothing registered for `idle`.
  MemoryPeer(FileDescriptor socket, std::shared_ptr<const uid_t> user, Registrar& registrar,
             MemfdSealer& sealer, absl::Duration idle, absl::Time now)
      : socket_(std::move(socket)),
        user_(std::move(user)),
        registrar_(registrar),
        sealer_(sealer),
        idle_(idle),
        last_used_(now) {}
  MemoryPeer(const MemoryPeer&) = delete;
  MemoryPeer& operator=(const MemoryPeer&) = delete;
  // Gives back what was registered.
  ~MemoryPeer();

  // Answers one request, if one has come, or goes on with the one before once its memfd is sealed. False
  // where the client is gone, does not take its answers, has sent a descriptor that is not of a memfd, or has
  // been idle for too long: the connection should then be destroyed.
  bool Serve(absl::Time now);

  // Whether a memfd of the client's is being registered. Each RegisterNext takes in one part of it, and the
  // last one answers; false as Serve. The caller shares out the time among connections.
  bool registers() const { return !registering_.empty(); }
  bool RegisterNext();
  uid_t user() const { return *user_; }

  // By when Serve is to be called even if nothing has come.
  absl::Time deadline() const;
  // The caller polls this: for requests, or for the end of the connection alone while none is taken.
  pollfd watched() const {
    return {.fd = socket_.get(), .events = static_cast<short>(takes_requests() ? POLLIN : 0), .revents = 0};
  }

 private:
  // These are false as Serve.
  bool Proceed(absl::Time now);
  bool TakeRequest(Packet& packet, absl::Time now);
  bool takes_requests() const { return sealing_ == nullptr && !registers(); }
  // Whether the client is still there while no request of its is taken.
  bool IsThere() const;
  bool EndSealing();
  // Whether the client took the answer: a token, or why there is none.
  bool Answer(const absl::StatusOr<std::string>& token);
  // Takes the memfd if it is OK; the answer comes later.
  absl::Status BeginRegisterHost(FileDescriptor& memfd, std::uint64_t byte_count, absl::Time now);
  absl::StatusOr<std::string> RegisterGpu(const v1::RegisterGpuMemory& request);
  absl::StatusOr<std::string> Unregister(const std::string& token);

  FileDescriptor socket_;
  const std::shared_ptr<const uid_t> user_;
  Registrar& registrar_;
  MemfdSealer& sealer_;
  const absl::Duration idle_;
  absl::Time last_used_;                    // while something was registered
  std::shared_ptr<const Sealing> sealing_;  // of the memory to register next
  std::uint64_t sealing_bytes_ = 0;
  std::string registering_;  // one of tokens_, which the client has yet to be told
  std::vector<std::string> tokens_;
};

}  // namespace warpfold::server
