// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The sinks. Each listens, and calls `ready` with its address and with a function that ends it, from any
// thread, once. It serves until then, and returns; it returns sooner only if it cannot listen.
#pragma once

#include <grpcpp/server_builder.h>

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "client/cli/bench/sink_kind.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold::cli {

using Ready = std::function<void(const std::string& address, std::function<void()> end)>;

absl::Status ServeRawSocket(const std::string& listen, const Ready& ready);
// `kind` is one of kAsync*.
absl::Status ServeAsync(const std::string& listen, SinkKind kind, const Ready& ready);
absl::Status ServePlainService(const std::string& listen, const Ready& ready);

// The rest is what the sinks on gRPC share.

// warpfold-server's settings, as far as they affect speed.
void ApplySinkSettings(grpc::ServerBuilder& builder);

// `listen` with the port that was bound.
std::string BoundAddress(const std::string& listen, int port);

// Responses that the client accepts: for the elements that were sent, with a value of each operator's kind
// that nobody computed. Operators that return several values (minmax, describe) are not supported.
v1::Reduction AnswerTo(const v1::ReduceHeader& header, const v1::ReduceCommit& commit);
v1::Reduction AnswerTo(const v1::MergeRequest& request);
v1::GetServerInfoResponse SinkInfo();

}  // namespace warpfold::cli
