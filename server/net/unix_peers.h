// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which user is at the other end of a Unix socket. gRPC reports only the path of the peer's socket, which
// most clients do not have, and which they could choose. This file's source defines getpeername, which gRPC
// calls, in place of the C library's: for Unix sockets the path that it returns is the user's number after a
// prefix that no client can guess (docs/adr/0071).
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace warpfold::server {

// The user of a call's peer, as gRPC names it; nothing if the peer is not on a Unix socket. From any thread.
std::optional<std::uint32_t> UserOfPeer(absl::string_view grpc_peer);

}  // namespace warpfold::server
