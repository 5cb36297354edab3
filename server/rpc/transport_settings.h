// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// gRPC's settings, where its defaults are not what a service should have on a network.
#pragma once

#include <grpcpp/server_builder.h>

namespace warpfold::server {

void ApplyTransportSettings(grpc::ServerBuilder& builder, int max_concurrent_reductions);

}  // namespace warpfold::server
