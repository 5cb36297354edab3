// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Sees what gRPC reads from the sockets that it was given, before gRPC does: this file's source defines
// recvmsg, with which gRPC reads, in place of the C library's (docs/adr/0045). The connection of a client
// that abuses HTTP/2 is closed. So is that of a client that sends descriptors over a Unix socket, if the
// kernel does not refuse them: they are left unread. The source also defines close, which closes such sockets
// elsewhere (docs/adr/0105), and sendmsg, from which the watch knows whether the server has sent anything
// yet, and which calls it has ended.
#pragma once

#include <memory>

namespace warpfold::server {

class WatchedConnection;

// Watches an HTTP/2 connection from its first byte on, until its descriptor ends by close: whoever has the
// number after that is not watched. Call this before anybody reads from it. Descriptors from 2^21 on are not
// watched: there are fewer connections.
void WatchSocket(int descriptor);

// The same for an encrypted connection, whose bytes say nothing before they are decrypted: the caller must
// pass the decrypted bytes to the connection (watched_tls.h).
std::shared_ptr<WatchedConnection> WatchEncryptedSocket(int descriptor);

}  // namespace warpfold::server
