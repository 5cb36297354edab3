// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Unix sockets of type SOCK_SEQPACKET, and the descriptors that come with their messages.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/net/file_descriptor.h"

namespace warpfold::server {

// Listens at `path`. Anybody whom the file system lets reach it may connect, so the caller has to check
// PeerUser. A socket file that nobody listens on is replaced. UNAVAILABLE if that cannot be done, without the
// path.
absl::StatusOr<FileDescriptor> ListenAt(const std::string& path);

// Whether a process listens on a Unix socket at `path`, of whichever type. Does not wait for it. A killed
// server leaves the file behind, on which nobody listens. True also where that cannot be found out, for want
// of a descriptor: an error is better than a socket that is taken from its owner.
bool UnixSocketInUse(const std::string& path);

// The number of the socket file at `path`; 0 if there is none. Whoever takes a socket's file away compares it
// first: another process may have put its own there meanwhile.
std::uint64_t InodeOfSocket(const std::string& path);

// The next connection, if there is one; does not block. *failed says that there was one, but no descriptor or
// memory for it.
FileDescriptor Accept(const FileDescriptor& listener, bool* failed);

// The user of the process at the other end. Nothing where the system does not say, or where the user is not
// of this process' user namespace: the system then gives all such users one number, which may also be that of
// a user who is (user_namespaces(7)).
std::optional<uid_t> PeerUser(int socket);
// A number that no user has.
inline constexpr auto kNobody = static_cast<uid_t>(-1);

// A message, and the descriptor that came with it.
struct Packet {
  std::string bytes;
  bool is_truncated = false;  // more bytes were sent than are taken
  FileDescriptor descriptor;
  bool has_more_descriptors = false;
};
inline constexpr std::size_t kMaxPacketBytes = 4096;

// kForeign is a message that brings something else than one memfd. Whoever closes the last descriptor of
// another kind of file may have to wait for it, so the message itself stays unread: the socket, and
// packet->descriptor, are to be closed elsewhere (foreign_descriptors.h).
enum class Received { kPacket, kForeign, kNothingYet, kEnd };
// Does not block.
Received Receive(const FileDescriptor& connection, Packet* packet);

// Whether the message went out at once, with a copy of `descriptor` unless that is -1.
bool SendPacket(const FileDescriptor& connection, const std::string& bytes, int descriptor = -1);

}  // namespace warpfold::server
