// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What one call, and all calls together, may use of the service. Flags set these limits; GetServerInfo
// reports them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "kernels/geometry.h"
#include "kernels/segments.h"

namespace warpfold::server {

// The largest payload of one message: the data of a chunk or of ReduceArray, the states of a Merge. Clients
// send 0.5 to 2 MiB; this leaves room and bounds what one call can make the server hold.
inline constexpr std::uint64_t kMaxPayloadBytes = std::uint64_t{4} << 20;
// Tags, lengths, a checksum and header fields surround the payload; they have at most this many bytes.
inline constexpr std::uint64_t kMaxFramingBytes = std::uint64_t{64} << 10;
// The whole request of a call that brings neither an array nor states.
inline constexpr std::uint64_t kMaxSmallRequestBytes = 4096;
// Of messages that are too large, the service itself rejects those of up to this size, with a reason that
// programs can read. gRPC rejects larger ones, with its own text.
inline constexpr std::uint64_t kMaxTransportBytes = 2 * kMaxPayloadBytes + 2 * kMaxFramingBytes;

// What a client may send on a stream before the service has read any of it: gRPC's window of flow control,
// which is the same for all calls (docs/adr/0008).
inline constexpr std::uint64_t kStreamWindowBytes = std::uint64_t{4} << 20;

// Connections at once, unless a flag says otherwise; half of them for one peer.
inline constexpr std::size_t kDefaultConnections = 512;
// Calls that a connection may have at once. Clients make further calls wait, or open another connection.
inline constexpr int kMaxStreams = 64;
constexpr int StreamsOfConnection(int max_concurrent_reductions) {
  return std::min(2 * max_concurrent_reductions + 16, kMaxStreams);
}
// What gRPC takes for a connection, and for a call before the service has admitted it (docs/adr/0107).
inline constexpr std::uint64_t kConnectionBytes = std::uint64_t{100} << 10;
inline constexpr std::uint64_t kStreamBytes = std::uint64_t{22} << 10;

// Limits of segments: how many bytes of values one message of results has; how many bytes of results may wait
// for the client, or be on their way from the device, before the server reads no further; and how many
// lengths may be ahead of their elements.
inline constexpr std::uint64_t kMaxResultBytes = std::uint64_t{512} << 10;
inline constexpr std::uint64_t kMaxWaitingResultBytes = std::uint64_t{4} << 20;
// Two slots' results may wait in any case, so that one slot is filled while another works.
constexpr std::uint64_t WaitingResultBytes(std::uint64_t slot_bytes) {
  return std::max(kMaxWaitingResultBytes, 2 * (slot_bytes / kernels::kSegmentResultShare));
}
inline constexpr std::uint64_t kMaxLengthsAhead = std::uint64_t{1} << 17;
// How much is kept of a segment whose bytes have not all come when its slot is revoked. Two longer ones do
// not fit in a GPU's slot of 8 MiB.
inline constexpr std::uint64_t kMaxHeldBytes = std::uint64_t{4} << 20;

// How many bytes of responses that clients do not read may be held. Beyond this, parties that have more than
// an equal share are cut off at once, and not only when they have been idle for too long.
inline constexpr std::uint64_t kMaxPendingAnswerBytes = std::uint64_t{64} << 20;

// The advised size of the data of one chunk, and how many bytes justify one more stream.
inline constexpr std::uint64_t kAdvisedChunkBytes = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kAdvisedMinStripeBytes = std::uint64_t{8} << 20;

// The maximum of --max_stream_bytes: half of the longest array, so that a stripe of any array may begin as
// far into it as one stream may reach. Beyond it max_first_byte would leave no room for stripes.
inline constexpr std::uint64_t kMaxStreamBytes = kMaxArrayBytes / 2;

struct CallLimits {
  absl::Duration idle = absl::InfiniteDuration();      // longest wait for the client's progress
  std::uint64_t pace_bytes = std::uint64_t{64} << 10;  // that are to come in twice that time
  absl::Duration duration = absl::InfiniteDuration();  // longest life of the call
};

struct Limits {
  std::uint64_t max_stream_bytes = std::uint64_t{1} << 40;  // at most kMaxStreamBytes
  int max_concurrent_reductions = 64;
  CallLimits call = {.idle = absl::Seconds(60), .duration = absl::Seconds(3600)};
  int advised_streams = 4;       // of one array, 1 to 64; for GetServerInfo
  std::uint64_t slots = 0;       // for GetServerInfo
  std::uint64_t slot_bytes = 0;  // for GetServerInfo

  // The furthest byte of an array at which a stream may start, so that its end is still within what the
  // kernels can count.
  std::uint64_t max_first_byte() const { return kMaxArrayBytes - max_stream_bytes; }
};

}  // namespace warpfold::server
