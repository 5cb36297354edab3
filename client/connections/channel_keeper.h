// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Takes over channels that are given up while they connect. gRPC 1.51 may lose the socket then: it stays open
// until the process ends, here and as one of the server's connections. Internal.
#pragma once

#include <grpcpp/channel.h>

#include <cstddef>
#include <memory>

namespace warpfold {

// Does not block. A channel that is connecting lives on until it has connected or failed, or for a few
// seconds, on a thread that all of them share; any other one is destroyed. Threads: any.
void GiveUp(std::shared_ptr<grpc::Channel> channel);

// How many channels live on.
std::size_t ChannelsGivenUp();

}  // namespace warpfold
