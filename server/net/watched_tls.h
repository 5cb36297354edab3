// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Sees what gRPC reads from encrypted connections, once it is decrypted and before gRPC looks at it: this
// file's source defines SSL_read and SSL_write in place of OpenSSL's (docs/adr/0136). The connection of a
// client that abuses HTTP/2 over TLS is closed, as in plaintext (watched_sockets.h).
#pragma once

#include <memory>

namespace warpfold::server {

class WatchedConnection;

// The key updates and small records that a client may send at once, and then in each second. Honest clients
// renew their keys after hundreds of gigabytes. A record is small if it has at most kSmallRecord bytes with
// its tag, like one that carries a frame which opens a window.
inline constexpr double kMaxKeyUpdates = 16;
inline constexpr double kKeyUpdatesPerSecond = 1;
inline constexpr int kSmallRecord = 64;
inline constexpr double kMaxSmallRecords = 100'000;
inline constexpr double kSmallRecordsPerSecond = 100'000;

// Watches an encrypted connection, from its first byte on: the one whose TLS gRPC sets up on this thread
// while this object lives. So the connection must be handed over to gRPC within that time.
//
// Threads: one, its own.
class TlsHandOver {
 public:
  explicit TlsHandOver(int descriptor);
  TlsHandOver(const TlsHandOver&) = delete;
  TlsHandOver& operator=(const TlsHandOver&) = delete;
  ~TlsHandOver();

 private:
  const std::shared_ptr<WatchedConnection> connection_;
};

}  // namespace warpfold::server
