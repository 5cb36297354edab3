// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Sees what gRPC reads from the sockets that it was handed over, before gRPC does: this file's source defines
// recvmsg, by which gRPC reads, in place of the C library's (docs/adr/0045). A client that abuses HTTP/2
// finds the connection closed. So does one that sends descriptors over a Unix socket, where the kernel does
// not refuse them: they are left unread. The source also defines close, which closes such sockets elsewhere
// (docs/adr/0105), and sendmsg, by which the watch knows whether the server has spoken yet, and which calls
// it has ended.
#pragma once

#include <memory>

namespace warpfold::server {

class WatchedConnection;

// Watches an HTTP/2 connection from its first byte on, for as long as it is this descriptor. To be called
// before anybody reads from it. Connections with descriptors beyond the 65,536th are not watched.
void WatchSocket(int descriptor);

// The same for a connection that is encrypted, whose bytes say nothing before they are decrypted: the caller
// sees to it that the connection is told of them (watched_tls.h).
std::shared_ptr<WatchedConnection> WatchEncryptedSocket(int descriptor);

}  // namespace warpfold::server
