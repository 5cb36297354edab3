// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// gRPC's settings, for which its defaults are not suitable for a service on a network.
#pragma once

#include <grpcpp/server_builder.h>

#include <cstdint>
#include <optional>

namespace warpfold::server {

// `received_bytes`: beyond it gRPC ends calls to free memory with data that clients have sent.
void ApplyTransportSettings(grpc::ServerBuilder& builder, int max_concurrent_reductions,
                            std::optional<std::uint64_t> received_bytes);

}  // namespace warpfold::server
