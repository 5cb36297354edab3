// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "client/cli/bench/raw_socket.h"
#include "client/cli/bench/sinks.h"
#include "client/cli/bench/staging.h"

namespace warpfold::cli {
namespace {

// Until the client has gone.
void Serve(RawSocket socket) {
  Staging staging;
  std::uint64_t size = 0;
  while (socket.Receive(std::as_writable_bytes(std::span(&size, 1))).ok()) {
    for (std::uint64_t left = size; left > 0;) {
      const std::span<std::byte> part = staging.Next(left);
      if (!socket.Receive(part).ok()) return;
      left -= part.size();
    }
    if (!socket.Send(std::as_bytes(std::span(&size, 1))).ok()) return;
  }
}

}  // namespace

absl::Status ServeRawSocket(const std::string& listen, const Ready& ready) {
  absl::StatusOr<RawSocket> listener = RawSocket::Listen(listen);
  if (!listener.ok()) return listener.status();
  std::atomic<bool> ends = false;
  ready(listener->address(), [&] {
    ends = true;
    listener->Shutdown();
  });
  while (true) {
    absl::StatusOr<RawSocket> socket = listener->Accept();
    if (ends) return absl::OkStatus();
    if (!socket.ok()) {  // for example if descriptors have run out
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    std::thread([socket = *std::move(socket)]() mutable { Serve(std::move(socket)); }).detach();
  }
}

}  // namespace warpfold::cli
