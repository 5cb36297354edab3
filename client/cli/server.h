// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The server that the command line names, or several.
#pragma once

#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/flags.h"

namespace warpfold::cli {

struct Server {
  std::vector<std::string> targets;  // at least one; commands that may use several use all
  std::shared_ptr<grpc::ChannelCredentials> credentials;  // null for plaintext

  const std::string& target() const { return targets.front(); }
};

// Reads the TLS files. The status names the one that cannot be read.
absl::StatusOr<Server> FindServer(const ServerFlags& flags);

}  // namespace warpfold::cli
