// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A feature that gRPC's public interface lacks: a server that tells its clients to go elsewhere while it
// still serves them (docs/adr/0031).
#pragma once

#include <grpcpp/server.h>

namespace warpfold::server {

// Sends GOAWAY on every connection. Calls that are in progress, and those that cross the message on its way,
// are served as before; a connection without calls is closed. Not from a thread that serves a completion
// queue.
void SendGoaways(grpc::Server& server);

// Whether any connection is open, including those whose end gRPC has not yet processed.
bool HasOpenConnections(grpc::Server& server);

}  // namespace warpfold::server
