// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The only place where the service's errors become gRPC's.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace warpfold::server {

// Code and message as they are; reason and metadata as a google.rpc.ErrorInfo of domain "warpfold" in
// the standard status details.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace warpfold::server
