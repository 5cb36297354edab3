// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Descriptors that other processes send over Unix sockets. The process that has the last descriptor of a file
// has to wait for the file's close, and the file's owner decides how long that takes: a TCP socket can linger
// for hours, and the owner's file system may never respond. So no thread that serves may close such a
// descriptor, nor a socket on which one lies unread, which the kernel closes with it (docs/adr/0105).
//
// Threads: any.
#pragma once

#include <sys/types.h>

#include <memory>

#include "server/net/file_descriptor.h"

namespace warpfold::server {

// Has the kernel refuse descriptors on the connections that this socket will accept, if it can (Linux 6.16).
void RefuseDescriptors(int listener);

// Whether descriptors may come over the socket: it is a Unix socket on which the kernel refuses none.
bool MayBringDescriptors(int socket);

// Closes a descriptor that came from another process on a thread that serves nobody, and then destroys
// `with`. An owner, the user who sent it, has kClosersOfOne such threads at most, and all owners together
// kMaxClosers: if these hang, it stays open. A close that takes a second is interrupted by a signal, and from
// then on four times a second: this ends the wait for a socket that lingers, but not for a file system.
void CloseElsewhere(FileDescriptor descriptor, uid_t owner, std::shared_ptr<const void> with = nullptr);
inline constexpr int kClosersOfOne = 2;
inline constexpr int kMaxClosers = 16;

// Likewise destroys an object whose destruction may take long: the owner waits for the threads that close its
// descriptors.
void DestroyElsewhere(std::shared_ptr<const void> last, uid_t owner);

// Likewise closes a connection of ours to `owner`. Unread data on it is read first: otherwise the owner would
// see a reset before it has read what was sent to it.
void CloseConnectionElsewhere(FileDescriptor connection, uid_t owner,
                              std::shared_ptr<const void> with = nullptr);

// Closes a socket of ours, elsewhere if descriptors may lie on it unread.
void CloseSocket(FileDescriptor socket);

}  // namespace warpfold::server
