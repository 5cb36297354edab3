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

#include <cstdint>
#include <string>

namespace warpfold::server {

// Watches a plaintext HTTP/2 connection from its first byte on, for as long as it is this descriptor. To be
// called before anybody reads from it. Connections with descriptors beyond the 65,536th are not watched.
void WatchSocket(int descriptor);

// To be called for a connection that is encrypted: an earlier one may have had the same descriptor.
void LeaveSocketUnwatched(int descriptor);

// Whether the peer, as PeerOf names it, may connect: not while its connections have taken back more calls
// than they may, or left more behind when they ended, which costs as much.
bool MayConnect(const std::string& peer);

// How many connections have been closed for what they sent.
std::uint64_t FloodsClosed();

}  // namespace warpfold::server
