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

// Listens at `path`. Anyone who can reach it in the file system may connect, so the caller has to check
// PeerUser. A socket file that nobody listens on is replaced. UNAVAILABLE if that cannot be done, without the
// path.
absl::StatusOr<FileDescriptor> ListenAt(const std::string& path);

// While it lives, other servers do not take the path of a socket in the same folder: between bind and listen
// they would take its file for one that a killed server has left. Waits for them, but for a second at most:
// anybody who may read the folder can hold its lock.
class FolderLock {
 public:
  explicit FolderLock(const std::string& path);

 private:
  FileDescriptor folder_;
};

// Whether a process listens on a Unix socket of any type at `path`. Does not wait for it. A killed server
// leaves the file behind, on which nobody listens. Also true if this cannot be determined for lack of a
// descriptor: an error is better than taking a socket away from its owner.
bool UnixSocketInUse(const std::string& path);

// The number of the socket file at `path`; 0 if there is none. Compare it before removing a socket's file:
// another process may have put its own there meanwhile.
std::uint64_t InodeOfSocket(const std::string& path);

// The next connection, if there is one; does not block. Sets *failed if there was one, but no descriptor or
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

// kForeign is a message that brings anything other than one memfd. Closing the last descriptor of another
// kind of file may take long, so the message itself stays unread: the socket, and packet->descriptor, must be
// closed elsewhere (foreign_descriptors.h).
enum class Received { kPacket, kForeign, kNothingYet, kEnd };
// Does not block.
Received Receive(const FileDescriptor& connection, Packet* packet);

// Whether the message went out at once, with a copy of `descriptor` unless that is -1.
bool SendPacket(const FileDescriptor& connection, const std::string& bytes, int descriptor = -1);

}  // namespace warpfold::server
