// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/transport_settings.h"

#include <grpcpp/resource_quota.h>

#include "server/core/limits.h"

namespace warpfold::server {
namespace {

// More than the service's own limit, so that it is mostly the service that rejects messages, with its reason.
constexpr int kMaxReceiveBytes = static_cast<int>(kMaxTransportBytes);

// What a client may put into one frame of HTTP/2. gRPC's default, the least that HTTP/2 allows, cuts a chunk
// of 1 MiB into 64 frames, each of which costs both sides some of their time (docs/adr/0083).
constexpr int kMaxFrameBytes = 256 << 10;

constexpr int kHandshakeTimeoutMs = 10'000;
constexpr int kMaxConnectionIdleMs = 600'000;
// After this time, give or take a tenth, a client is told to reconnect; its calls go on until they end. It
// looks up its servers again, and so finds those that were started since; and its certificate is checked
// again.
constexpr int kMaxConnectionAgeMs = 1'800'000;
constexpr int kKeepaliveTimeMs = 30'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
constexpr int kMinPingIntervalMs = 10'000;

}  // namespace

void ApplyTransportSettings(grpc::ServerBuilder& builder, int max_concurrent_reductions,
                            std::optional<std::uint64_t> received_bytes) {
  // A small compressed message may be a thousand times its size; and arrays hardly compress.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetMaxReceiveMessageSize(kMaxReceiveBytes);
  // gRPC checks a message's size only when all of it has come. Without a quota one call could make it hold 4
  // GiB, the longest possible message (docs/adr/0094).
  if (received_bytes.has_value()) {
    grpc::ResourceQuota quota("warpfold");
    quota.Resize(*received_bytes);
    builder.SetResourceQuota(quota);
  }

  // Room for short calls, and for the service to reject calls itself.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, StreamsOfConnection(max_concurrent_reductions));
  // The window of flow control is fixed. gRPC's bandwidth probe would start from 64 KiB and grow without a
  // bound of ours, so that stalled streams could make the server hold ten times the memory.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, static_cast<int>(kStreamWindowBytes));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kMaxFrameBytes);

  // Connections that only look alive.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kMaxConnectionIdleMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, kMaxConnectionAgeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinPingIntervalMs);
}

}  // namespace warpfold::server
