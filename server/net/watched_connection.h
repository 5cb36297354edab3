// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What is known of a connection that carries HTTP/2, from the bytes that gRPC reads and writes: in plaintext
// those of the socket (watched_sockets.h), else those that TLS has decrypted (watched_tls.h).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "server/net/frame_heads.h"
#include "server/net/frame_watch.h"
#include "server/net/peer_allowances.h"

namespace warpfold::server {

// Threads: one at a time reads, and one at a time writes. The last to read closes the connection.
class WatchedConnection {
 public:
  // Of a socket from which nobody has read yet.
  explicit WatchedConnection(int descriptor);

  int descriptor() const { return descriptor_; }
  bool may_bring_descriptors() const { return may_bring_descriptors_; }
  // Whether the descriptor is still this connection's.
  bool IsStill() const;

  // Takes bytes that the client has sent. Null, or what is wrong with them: then the connection should be
  // cut.
  const char* TakeReceived(std::span<const std::byte> bytes);

  // To be called before the first of the server's bytes is on its way.
  void ServerSpeaks() { server_speaks_.store(true, std::memory_order_release); }
  // Takes bytes that the server sends.
  void TakeSent(std::span<const std::byte> bytes) { ends_.Take(bytes); }
  // To be called when the system has taken what TakeSent was given.
  void ConfirmSent() { ended_ = ends_.count(); }

  // Says in the log what the client sends, and ends the connection at once.
  void Cut(const char* complaint) const;

  // To be called when the connection is closed: the calls that are under way count as taken back.
  void CountLeftCalls();

 private:
  const int descriptor_;
  const ino_t inode_;
  const bool may_bring_descriptors_;
  const std::shared_ptr<PeerAllowances> of_peer_;
  std::atomic<bool> server_speaks_ = false;
  FrameWatch frames_;
  CallEnds ends_;
  std::uint64_t ended_ = 0;  // calls, of which the client was told
  bool is_over_ = false;
};

// Whether the peer, as PeerOf names it, may connect: not while its connections have taken back more calls
// than they may, or left more behind when they ended, which costs as much. Threads: any.
bool MayConnect(const std::string& peer);

// How many connections have been cut for what they sent. Threads: any.
std::uint64_t FloodsClosed();

}  // namespace warpfold::server
