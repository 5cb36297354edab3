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

struct ClientOptions {
  // Over how many connections one array can be striped, 1 to 64. Each is made when first used.
  int connections = 1;
  // TLS, for example grpc::SslCredentials; null for plaintext.
  std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;
  // How often a call is tried in all, 1 for no retries. See Client for what is retried.
  int max_attempts = 4;
  // Before the first retry; doubled for each one after it, and made up to a fifth shorter by chance.
  absl::Duration backoff = absl::Milliseconds(100);
};

struct CallOptions {
  // For the whole call, retries included: DEADLINE_EXCEEDED after it. One thing may hold a call longer: a
  // peer that has stopped to read in the middle of a chunk, which gRPC then still needs the memory of. A TCP
  // connection is given up after 20 s of that, a Unix socket when the peer goes on or ends.
  absl::Duration timeout = absl::InfiniteDuration();
  // Cancels from any thread: CANCELLED after its request_stop(), with the same exception.
  std::stop_token stop = {};
  // Appears in the server's log; at most 128 printable ASCII characters.
  std::string request_id = {};
  // Stripes of the array, each on its own connection: 1 to ClientOptions::connections.
  int streams = 1;
  // Array bytes in a message, but for the last one of a stripe: a power of two, 4 KiB or more; the server has
  // a limit. 512 KiB to 2 MiB are fastest. A Writer has messages of 1 MiB.
  std::size_t chunk_bytes = std::size_t{1} << 20;
  // CRC32C of every chunk and of the whole, checked by the server.
  bool checksum = false;
  // Told how many more bytes were handed to the network, from as many threads as there are streams. Bytes
  // that are sent again count again.
  std::function<void(std::uint64_t bytes)> on_sent = nullptr;
};

}  // namespace warpfold
