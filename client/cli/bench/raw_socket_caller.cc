// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "client/calls/stripes.h"
#include "client/cli/bench/caller.h"
#include "client/cli/bench/raw_socket.h"

namespace warpfold::cli {
namespace {

// As a stream of the client does it: a piece of `chunk_bytes` at a time.
absl::Status SendPart(RawSocket& socket, std::span<const std::byte> part, std::size_t chunk_bytes) {
  const std::uint64_t size = part.size();
  if (absl::Status status = socket.Send(std::as_bytes(std::span(&size, 1))); !status.ok()) return status;
  while (!part.empty()) {
    const std::span<const std::byte> chunk = part.first(std::min(chunk_bytes, part.size()));
    if (absl::Status status = socket.Send(chunk); !status.ok()) return status;
    part = part.subspan(chunk.size());
  }
  std::uint64_t counted = 0;
  if (absl::Status status = socket.Receive(std::as_writable_bytes(std::span(&counted, 1))); !status.ok()) {
    return status;
  }
  return counted == size ? absl::OkStatus() : absl::InternalError("the sink counted other bytes");
}

absl::StatusOr<Reduction> SendInStripes(std::vector<RawSocket>& sockets, std::span<const std::byte> array,
                                        std::size_t chunk_bytes) {
  std::vector<absl::Status> outcomes(sockets.size());
  if (sockets.size() == 1) {
    outcomes[0] = SendPart(sockets[0], array, chunk_bytes);
  } else {
    const std::vector<Stripe> stripes = CutIntoStripes(array.size(), 1, static_cast<int>(sockets.size()));
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < stripes.size(); ++i) {
      threads.emplace_back([&, i] {
        const Stripe& stripe = stripes[i];
        outcomes[i] =
            SendPart(sockets[i], array.subspan(stripe.first_element, stripe.element_count), chunk_bytes);
      });
    }
  }
  for (const absl::Status& outcome : outcomes) {
    if (!outcome.ok()) return outcome;
  }
  return Reduction{};
}

}  // namespace

absl::StatusOr<Caller> MakeRawSocketCaller(const std::string& address, const BenchFlags& flags) {
  auto sockets = std::make_shared<std::vector<RawSocket>>();
  for (int i = 0; i < flags.streams; ++i) {
    absl::StatusOr<RawSocket> socket = RawSocket::Connect(address);
    if (!socket.ok()) return socket.status();
    sockets->push_back(*std::move(socket));
  }
  return Caller(
      [sockets, chunk_bytes = static_cast<std::size_t>(flags.chunk_bytes)](std::span<const std::byte> array) {
        return SendInStripes(*sockets, array, chunk_bytes);
      });
}

}  // namespace warpfold::cli
