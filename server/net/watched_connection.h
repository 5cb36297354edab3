// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What is known about a connection that carries HTTP/2, from the bytes that gRPC reads and writes: in
// plaintext those of the socket (watched_sockets.h), otherwise those that TLS has decrypted (watched_tls.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "server/net/frame_heads.h"
#include "server/net/frame_watch.h"
#include "server/net/peer_allowances.h"

namespace warpfold::server {

// Threads: one at a time reads, and one at a time writes. The last reader closes the connection.
class WatchedConnection {
 public:
  // For a socket from which nobody has read yet.
  explicit WatchedConnection(int descriptor);

  bool may_bring_descriptors() const { return may_bring_descriptors_; }

  // Takes bytes that the client has sent. Returns null, or what is wrong with them: then the connection
  // should be closed.
  const char* TakeReceived(std::span<const std::byte> bytes);

  // Call this before the first of the server's bytes is sent.
  void ServerSpeaks() { server_speaks_.store(true, std::memory_order_release); }
  // Takes bytes that the server sends.
  void TakeSent(std::span<const std::byte> bytes) { ends_.Take(bytes); }
  // Call this when the system has accepted what TakeSent was given.
  void ConfirmSent() { ended_ = ends_.count(); }

  // Logs what the client sends, and resets the connection at once. Does nothing after End. Threads: any.
  void Cut(const char* complaint);

  // Call this before the descriptor is closed, when nobody reads or writes any more: calls that are in
  // progress count as cancelled.
  void End();

 private:
  const int descriptor_;
  const bool may_bring_descriptors_;
  const std::shared_ptr<PeerAllowances> of_peer_;
  std::atomic<bool> server_speaks_ = false;
  FrameWatch frames_;
  CallEnds ends_;
  std::uint64_t ended_ = 0;  // calls whose end the client was told
  std::mutex mutex_;         // Cut uses the descriptor only before End, and End waits for it
  bool is_over_ = false;     // guarded by mutex_
};

// Whether the peer, as PeerOf names it, may connect: not while its connections have cancelled more calls than
// they may, or left more behind when they ended, which costs as much. Threads: any.
bool MayConnect(const std::string& peer);

// How many connections have been closed for what they sent. Threads: any.
std::uint64_t FloodsClosed();

}  // namespace warpfold::server
