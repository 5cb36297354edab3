// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The socket over which processes on this machine give the server memory to read (memory.proto), and the
// thread that serves it.
//
// Threads: Open and the destructor from one thread. The rest happens on the socket's own: registering memory
// may take seconds, which no call should wait for.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/shared/steady_time.h"
#include "server/core/clock.h"
#include "server/core/references/memory_registry.h"
#include "server/memory/handle_prober.h"
#include "server/memory/memfd_sealer.h"
#include "server/memory/memory_peer.h"
#include "server/memory/memory_rejections.h"
#include "server/memory/registrar.h"
#include "server/memory/user_turns.h"

namespace warpfold::server {

struct MemorySocketOptions {
  std::string path;
  std::vector<uid_t> users;  // beside the server's own
  std::uint64_t max_registered_bytes = 0;
  // After how long a connection is closed that has nothing registered.
  absl::Duration idle = absl::InfiniteDuration();
  // The command that MemfdSealer starts, and how long it waits for a memfd to be sealed.
  std::vector<std::string> sealer_command;
  absl::Duration sealing = absl::Seconds(10);
  // The command that HandleProber starts; empty: handles of GPU memory are opened without having been probed.
  // How long it waits for a response.
  std::vector<std::string> prober_command = {};
  absl::Duration probing = absl::Seconds(10);
  // How long a client waits for room. Memory that was given back before is freed in 0.2 s for each GiB,
  // unless its owner prevents that.
  absl::Duration room = absl::Seconds(60);
  // The listener is told of every rejection; there may be none.
  MemoryRejectionListener on_rejection = nullptr;
};

class MemorySocket {
 public:
  static constexpr std::size_t kMaxConnections = 256;  // more wait to be accepted
  // Further connections of one user are closed: otherwise a user who connects and sends nothing would keep
  // all others waiting.
  static constexpr std::size_t kMaxOfOneUser = kMaxConnections / 2;
  // What it may have open at once after Open if `users` may connect besides the server's own user:
  // connections, one descriptor for each that is being sealed, waits for room or is being closed, the sockets
  // to the prober and to the processes that seal, a memfd for each of these whose client has left, and the
  // second end of a socket while its process is started.
  static constexpr std::size_t Descriptors(std::size_t users) {
    return 2 * kMaxConnections + 2 + 2 * (1 + users) * MemfdSealer::kProcessesOfOneUser;
  }

  // Serves once it has returned. `backend` and `registry` must outlive the socket. Returns UNAVAILABLE if it
  // cannot listen on the path.
  static absl::StatusOr<std::unique_ptr<MemorySocket>> Open(const MemorySocketOptions& options,
                                                            kernels::Backend& backend,
                                                            MemoryRegistry& registry);
  // Removes the socket's file, waits for the thread's current work, a part of a registration, and ends all
  // registrations. No reduction may still be in progress.
  ~MemorySocket();

  // From any thread. Removes the socket's file, unless another process has put its own there.
  void RemoveFile() const;

  // From any thread.
  const Registrar& registrar() const { return registrar_; }
  const MemoryRejections& rejections() const { return rejections_; }

 private:
  MemorySocket(const MemorySocketOptions& options, kernels::Backend& backend, MemoryRegistry& registry)
      : options_(options),
        rejections_(options.on_rejection),
        registrar_(
            backend, registry,
            {.max_bytes = options.max_registered_bytes, .has_several_users = HasSeveralUsers(options)}),
        sealer_(options.sealer_command, options.sealing) {
    if (!options.prober_command.empty()) prober_.emplace(options.prober_command, options.probing);
  }

  static bool HasSeveralUsers(const MemorySocketOptions& options);

  void Run();
  // Waits until something has come, or it is time to go on: for memory to give back, which is after
  // `next_release`, or for a process that hangs.
  void Await(absl::Duration next_release);
  // In milliseconds, for poll(2): -1 for ever.
  int LongestWait(absl::Duration next_release) const;
  void AcceptAll();
  // Registers the next part of one connection's memory; false if there is none. Users are served round-robin,
  // and so are the connections of one user.
  bool RegisterNext();
  // Calls `step` until it returns false, for about a millisecond: no request waits for more than that and one
  // part, however much others register.
  void Repeat(const std::function<bool()>& step) const;
  // Whether the user may open one more connection; none is known if it is of another namespace. If it may
  // not, this counts as a rejection.
  bool MayConnect(std::optional<uid_t> known);
  // How many connections are open, or are still being closed.
  std::size_t CountPlaces();

  const MemorySocketOptions options_;
  MemoryRejections rejections_;
  Registrar registrar_;
  MemfdSealer sealer_;
  std::optional<HandleProber> prober_;
  const Clock clock_ = SteadyNow;
  std::vector<std::unique_ptr<MemoryPeer>> connections_;
  // The users of the connections. Each entry ends when its socket has been closed, which a client may hold
  // up.
  std::vector<std::weak_ptr<const uid_t>> places_;
  FileDescriptor listener_;
  std::uint64_t inode_ = 0;  // of the socket's file
  FileDescriptor wake_;      // an eventfd: tells the thread to end
  bool accept_failed_ = false;
  UserTurns turns_;  // of RegisterNext
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

}  // namespace warpfold::server
