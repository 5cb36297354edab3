// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Descriptors that other processes send over Unix sockets. Whoever has the last one of a file has to wait for
// the file's close, and its owner decides for how long: a TCP socket lingers for hours, a file system of its
// own answers never. So no thread that serves may close such a descriptor, nor a socket on which one lies
// unread, which the kernel closes with it (docs/adr/0105).
//
// Threads: any.
#pragma once

#include <sys/types.h>

#include <memory>

#include "server/net/file_descriptor.h"

namespace warpfold::server {

// Has the kernel refuse descriptors on the connections that this socket will accept, where it can (Linux
// 6.16).
void RefuseDescriptors(int listener);

// Whether descriptors may come over the socket: it is a Unix socket of which the kernel refuses none.
bool MayBringDescriptors(int socket);

// Closes a descriptor that came from another process on a thread that serves nobody, and then destroys
// `with`. An owner, the user who sent it, has kClosersOfOne such threads at most, and all owners
// kMaxClosers: where these hang, it stays open. A close that takes a second is interrupted by a signal,
// and from then on four times a second: that ends the wait for a socket that lingers, not that for a file
// system.
void CloseElsewhere(FileDescriptor descriptor, uid_t owner, std::shared_ptr<const void> with = nullptr);
inline constexpr int kClosersOfOne = 2;
inline constexpr int kMaxClosers = 16;

// Destroys what may take long likewise: the owner waits for the threads that close its descriptors.
void DestroyElsewhere(std::shared_ptr<const void> last, uid_t owner);

// Likewise a connection of ours to `owner`. What lies on it unread is taken first: else the owner would be
// told of a reset before it has read what was sent to it.
void CloseConnectionElsewhere(FileDescriptor connection, uid_t owner,
                              std::shared_ptr<const void> with = nullptr);

// Closes a socket of ours, elsewhere if descriptors may lie on it unread.
void CloseSocket(FileDescriptor socket);

}  // namespace warpfold::server
