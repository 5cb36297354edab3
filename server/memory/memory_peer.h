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
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/memory/handle_prober.h"
#include "server/memory/memfd_sealer.h"
#include "server/memory/memory_rejections.h"
#include "server/memory/registrar.h"
#include "server/net/unix_socket.h"
#include "warpfold/v1/memory.pb.h"

namespace warpfold::server {

inline constexpr std::size_t kMaxRegistrations = 1024;  // of one connection

class MemoryPeer {
 public:
  // `rejections`, `registrar`, `sealer` and `prober` must outlive the connection, which `*user` made at
  // `now`; without a prober, memory of other processes on the GPU is not read before the backend opens it.
  // `user` lives until the socket is closed, which may be long after the connection's destruction. It ends
  // when it has had nothing registered for `idle`, and requested nothing. A request that finds no room waits
  // for it for `room`.
  MemoryPeer(FileDescriptor socket, std::shared_ptr<const uid_t> user, MemoryRejections& rejections,
             Registrar& registrar, MemfdSealer& sealer, HandleProber* prober, absl::Duration idle,
             absl::Duration room, absl::Time now)
      : socket_(std::move(socket)),
        user_(std::move(user)),
        rejections_(rejections),
        registrar_(registrar),
        sealer_(sealer),
        prober_(prober),
        idle_(idle),
        room_(room),
        last_used_(now) {}
  MemoryPeer(const MemoryPeer&) = delete;
  MemoryPeer& operator=(const MemoryPeer&) = delete;
  // Gives back all registrations.
  ~MemoryPeer();

  // Answers one request, if one has come, or goes on with the previous one once its memory is sealed or
  // probed. False if the client is gone, does not read its answers, has sent a descriptor that is not a
  // memfd's, or has been idle for too long: the connection should then be destroyed.
  bool Serve(absl::Time now);

  // Whether memory of the client can be registered now. Each RegisterNext registers one part of it, and the
  // last one answers; false as for Serve. The caller shares out the time among connections.
  bool registers() const { return registering_.has_value() && registrar_.CanGoOn(**registering_); }
  bool RegisterNext();
  // Whether it only waits for the close of a rejected memfd, which no descriptor signals.
  bool awaits_close() const {
    return sealing_ == nullptr && probing_ == nullptr && !registering_.has_value() && !memfd_.expired();
  }
  uid_t user() const { return *user_; }

  // By when Serve must be called even if nothing has come.
  absl::Time deadline() const;
  // The caller polls this: for requests, or only for the end of the connection while no request is accepted.
  pollfd watched() const {
    return {.fd = socket_.get(), .events = static_cast<short>(takes_requests() ? POLLIN : 0), .revents = 0};
  }

 private:
  // These are false as for Serve.
  bool Proceed(absl::Time now);
  // `is_memfd`: the descriptor that came with it, if one came, is a memfd's.
  bool TakeRequest(Packet& packet, bool is_memfd, absl::Time now);
  bool takes_requests() const {
    return sealing_ == nullptr && probing_ == nullptr && !registering_.has_value() && memfd_.expired();
  }
  // Whether the result that is awaited from another process is ready.
  bool has_result() const {
    return (sealing_ != nullptr && sealing_->result.has_value()) ||
           (probing_ != nullptr && probing_->result.has_value());
  }
  // Whether the client is still there while none of its requests is accepted.
  bool IsThere() const;
  absl::Status CheckWritable(bool writable) const;
  // Takes the memfd if it can be registered.
  bool RegisterHost(Memfd memfd, const v1::RegisterHostMemory& request, absl::Time now);
  bool RegisterGpu(const v1::RegisterGpuMemory& request, absl::Time now);
  bool EndSealing(absl::Time now);
  bool EndProbing(absl::Time now);
  // Continues with RegisterNext, or answers why not.
  bool Begin(const absl::StatusOr<Registrar::Handle>& begun, absl::Time now);
  // Answers that there is still no room.
  bool GiveUpRoom();
  // Sends the answer: a token, or why there is none. Returns whether the client took it.
  bool Answer(const absl::StatusOr<std::string>& token);
  absl::StatusOr<std::string> Unregister(const std::string& token);

  FileDescriptor socket_;
  const std::shared_ptr<const uid_t> user_;
  MemoryRejections& rejections_;
  Registrar& registrar_;
  MemfdSealer& sealer_;
  HandleProber* const prober_;  // may be null
  const absl::Duration idle_;
  const absl::Duration room_;
  absl::Time last_used_;  // while something was registered, or requested
  // At most one of these three has a value: it is the memory that will be registered next.
  std::shared_ptr<Sealing> sealing_;
  std::shared_ptr<const Probing> probing_;
  std::optional<Registrar::Handle> registering_;
  absl::Time began_;                 // to register it
  std::weak_ptr<const void> memfd_;  // the last that came, until it is closed
  std::uint64_t sealing_bytes_ = 0;
  Mapping sealing_mapping_;  // of what is sealed, if results may be written there
  std::vector<Registrar::Handle> registrations_;
};

}  // namespace warpfold::server
