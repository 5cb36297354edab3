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

// How long a call may take unless it says otherwise. It is a little more than a server lets a call live by
// default (--max_stream_seconds, 3,600 s), so that the server's own answer comes first where there is one.
inline constexpr absl::Duration kDefaultTimeout = absl::Seconds(3700);

struct ClientOptions {
  // The largest number of connections to each target, 1 to 64; another number is taken for the nearest of
  // these. Each is made when a call finds all before it busy.
  int connections = 64;
  // TLS, for example grpc::SslCredentials; null for plaintext. For all targets.
  std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;
  // How often in a row a call, or a share of an array, may fail before it is given up; 1 or less for no
  // retries, also where a full server has refused it. What is refused beside other calls of this client is no
  // failure. See client.h for what is retried.
  int max_attempts = 4;
  // Before the first retry; doubled for each one after it, up to 5 s (1 s where the end of another call of
  // this client is waited for), and made up to a fifth shorter by chance. If the server says when to come
  // again, that counts.
  absl::Duration backoff = absl::Milliseconds(100);
  // A peer from which nothing has come for this long is asked whether it lives (an HTTP/2 ping), while there
  // is a call; at least 1 s, at most a day. One that does not answer for 20 s is taken for dead: its calls
  // end with UNAVAILABLE. Servers answer pings in less than 10 s with an end of the connection.
  absl::Duration keepalive = absl::Seconds(20);
};

struct CallOptions {
  // For the whole call, retries included: DEADLINE_EXCEEDED after it, or after 3 s more where the peer has
  // stopped to read in the middle of a chunk, of which gRPC then still needs the memory. A call whose time is
  // over before it begins, as with a timeout of 0 or less, ends so without being sent. An array that takes
  // longer than the default, to a server that allows it, needs a longer timeout. A dead peer ends a call
  // sooner, after ClientOptions::keepalive and 20 s, also with absl::InfiniteDuration(); a server that lets
  // it wait does not.
  absl::Duration timeout = kDefaultTimeout;
  // Cancels from any thread: CANCELLED after its request_stop(), with the same exception.
  std::stop_token stop = {};
  // Asked on the thread that calls, some 20 times a second while it waits for the call, but never by a
  // destructor; false cancels the call, whatever the server answers, and stays the answer. What it throws
  // cancels the call at once. For a caller that has to look elsewhere now and then: at signals, or at a
  // display.
  std::function<bool()> keep_going = nullptr;
  // Appears in the server's log; at most 128 printable ASCII characters.
  std::string request_id = {};
  // The caller's place in a trace, as https://www.w3.org/TR/trace-context has it: 00-<trace>-<span>-<flags>
  // in lower-case hexadecimals. Goes with every call that the request takes; the server's log has its ids. A
  // text of another form is not sent.
  std::string traceparent = {};
  // What the caller's tracing system has to say beside it (W3C's tracestate), at most 512 printable ASCII
  // characters. Goes with `traceparent`, never without it; another text is not sent.
  std::string tracestate = {};
  // How many parts of the array are sent at once, each on its own connection: 1 to the connections to all
  // targets together. The servers may be finishing as many more. 0: as many as the servers advise for an
  // array of this size, and 1 where they do not answer. They are asked with the first array of 8 MiB or more,
  // and again until they have answered. The result has the same bits. Other numbers are INVALID_ARGUMENT, and
  // so are more than 1 of a Writer or a part; what else has one stream (put, segments, references) passes
  // them over.
  int streams = 0;
  // Array bytes in a message, except for the last one of a share: a power of two, 4 KiB to 4 MiB, else
  // INVALID_ARGUMENT. 0: 1 MiB, or what the servers advise where `streams` is 0, too, and the array has 8 MiB
  // or more. A Writer has messages of 1 MiB.
  std::size_t chunk_bytes = 0;
  // CRC32C of the whole array, or of each part of it, checked by the server.
  bool checksum = false;
  // Told how many more bytes were handed to the network, from as many threads as there are streams. Bytes
  // that are sent again count again.
  std::function<void(std::uint64_t bytes)> on_sent = nullptr;
};

}  // namespace warpfold
