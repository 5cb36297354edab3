// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Sees what gRPC reads from encrypted connections, once it is decrypted and before gRPC looks at it: this
// file's source defines SSL_read and SSL_write in place of OpenSSL's (docs/adr/0136). A client that abuses
// HTTP/2 over TLS finds the connection closed, as it does in plaintext (watched_sockets.h).
#pragma once

#include <memory>

namespace warpfold::server {

class WatchedConnection;

// What a client may send of TLS itself, beside HTTP/2: so many at once, and so many in a second for ever.
// Keys are renewed after hundreds of gigabytes. A small record has at most so many bytes, its tag included;
// that of a frame that opens a window is one.
inline constexpr double kMostKeyUpdates = 16;
inline constexpr double kKeyUpdatesPerSecond = 1;
inline constexpr int kSmallRecord = 64;
inline constexpr double kMostSmallRecords = 100'000;
inline constexpr double kSmallRecordsPerSecond = 100'000;

// Watches an encrypted connection, from its first byte on: the one whose TLS gRPC sets up on this thread
// while this lives. So gRPC is to be handed the connection over within that time.
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
