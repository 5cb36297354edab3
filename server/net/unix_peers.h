// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which user is at the other end of a Unix socket. gRPC tells of such a connection's peer nothing but the
// path of its socket, which clients mostly have none of, and could choose. This file's source defines
// getpeername, by which gRPC asks, in place of the C library's: for Unix sockets the path that it answers is
// the user's number behind a prefix that no client can guess (docs/adr/0071).
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace warpfold::server {

// The user that a call's peer is, as gRPC names it; nothing where it is not at a Unix socket. From any
// thread.
std::optional<std::uint32_t> UserOfPeer(absl::string_view grpc_peer);

}  // namespace warpfold::server
