// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The identity of a caller, from what the transport knows about its connection.
#pragma once

#include <grpcpp/server_context.h>

#include <string>

namespace warpfold::server {

struct CallerIdentity {
  std::string identity;  // as core/allow_list.h has it
  std::string peer;      // for the log: "ipv4:192.0.2.1:50123", "unix:1000" with the user's number
};

CallerIdentity IdentityOf(const grpc::ServerContextBase& context);

}  // namespace warpfold::server
