// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How to connect and how to call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/time/time.h"

namespace grpc {
class ChannelCredentials;
}

namespace warpfold {

inline constexpr char kDefaultTarget[] = "127.0.0.1:50051";

// How long a call may take unless it says otherwise. It is a little longer than a server lets a call live by
// default (--max_stream_seconds, 3,600 s), so that the server's own status comes first if there is one.
inline constexpr absl::Duration kDefaultTimeout = absl::Seconds(3700);

struct ClientOptions {
  // The largest number of connections to each target, 1 to 64; any other number becomes the nearest of these.
  // Each connection is made when a call finds all earlier ones busy.
  int connections = 64;
  // TLS, for example grpc::SslCredentials; null for plaintext. They apply to all targets.
  std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;
  // How often in a row a call, or a share of an array, may fail before the client gives it up; 1 or less for
  // no retries, even if a full server has rejected it. A rejection beside other calls of this client does not
  // count as a failure. See client.h for what is retried.
  int max_attempts = 4;
  // The pause before the first retry; it is doubled for each later one, up to 5 s (1 s while waiting for
  // another call of this client to end), and shortened at random by up to a fifth. If the server says when to
  // come again, that time is used.
  absl::Duration backoff = absl::Milliseconds(100);
  // While there is a call, a peer that has sent nothing for this long gets an HTTP/2 ping; at least 1 s, at
  // most a day. A peer that does not respond for 20 s is considered dead: its calls end with UNAVAILABLE.
  // Servers close the connection if pings come at intervals of less than 10 s.
  absl::Duration keepalive = absl::Seconds(20);
};

struct CallOptions {
  // For the whole call, including retries: DEADLINE_EXCEEDED after it, or 3 s later if the peer has
  // stopped reading in the middle of a chunk, whose memory gRPC then still needs. A call whose time is over
  // before it begins, as with a timeout of 0 or less, ends in this way without being sent. An array that
  // takes longer than the default, to a server that allows it, needs a longer timeout. A dead peer ends a
  // call sooner, after ClientOptions::keepalive plus 20 s, even with absl::InfiniteDuration(); a server that
  // keeps it waiting does not.
  absl::Duration timeout = kDefaultTimeout;
  // Cancels from any thread: CANCELLED after its request_stop(), with the same exception.
  std::stop_token stop = {};
  // Called on the calling thread, some 20 times a second while it waits for the call, but never by a
  // destructor; false cancels the call, whatever the server responds, and is final. An exception from it
  // cancels the call at once. This is for a caller that has to check something else now and then, such as
  // signals or a display.
  std::function<bool()> keep_going = nullptr;
  // Appears in the server's log; at most 128 printable ASCII characters.
  std::string request_id = {};
  // The caller's place in a trace, as https://www.w3.org/TR/trace-context defines it:
  // 00-<trace>-<span>-<flags> in lower-case hexadecimal. It is sent with every call that the request takes;
  // the server's log has its ids. Text in any other form is not sent.
  std::string traceparent = {};
  // What the caller's tracing system adds to it (W3C's tracestate), at most 512 printable ASCII characters.
  // It is sent with `traceparent`, never without it; any other text is not sent.
  std::string tracestate = {};
  // How many parts of the array are sent at once, each on its own connection: 1 to the number of connections
  // to all targets together. The servers may be finishing as many more. 0: as many as the servers advise for
  // an array of this size, and 1 if they do not respond. They are asked with the first array of 8 MiB or
  // more, and again until they have responded. The result has the same bits. Other numbers are
  // INVALID_ARGUMENT, and so are more than 1 for a Writer or a part; other calls with one stream (put,
  // segments, references) accept any number in this range, and use one.
  int streams = 0;
  // Array bytes in a message, except for the last one of a share: a power of two, 4 KiB to 4 MiB, else
  // INVALID_ARGUMENT. 0: 1 MiB, or what the servers advise if `streams` is 0, too, and the array has 8 MiB or
  // more. A Writer sends messages of 1 MiB.
  std::size_t chunk_bytes = 0;
  // CRC32C of the whole array, or of each part of it, checked by the server.
  bool checksum = false;
  // Called with the number of further bytes handed to the network, from as many threads as there are streams.
  // Bytes that are sent again count again.
  std::function<void(std::uint64_t bytes)> on_sent = nullptr;
};

}  // namespace warpfold
