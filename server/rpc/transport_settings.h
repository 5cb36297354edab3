// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// gRPC's settings, where its defaults are not what a service should have on a network.
#pragma once

#include <grpcpp/server_builder.h>

#include <cstdint>
#include <optional>

namespace warpfold::server {

// `received_bytes`: beyond it gRPC ends calls to get back what it holds of what clients have sent.
void ApplyTransportSettings(grpc::ServerBuilder& builder, int max_concurrent_reductions,
                            std::optional<std::uint64_t> received_bytes);

}  // namespace warpfold::server
