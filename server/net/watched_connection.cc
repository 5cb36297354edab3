// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/watched_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/log/logging.h"
#include "server/net/connections.h"
#include "server/net/foreign_descriptors.h"

namespace warpfold::server {
namespace {

std::atomic<std::uint64_t> floods_closed = 0;

// The connections of all peers, until the process ends.
AllPeersAllowances& OfPeers() {
  static AllPeersAllowances& of_peers = *new AllPeersAllowances;
  return of_peers;
}

}  // namespace

WatchedConnection::WatchedConnection(int descriptor)
    : descriptor_(descriptor),
      may_bring_descriptors_(MayBringDescriptors(descriptor)),
      of_peer_(OfPeers().Of(PeerOf(descriptor), std::chrono::steady_clock::now())) {}

const char* WatchedConnection::TakeReceived(std::span<const std::byte> bytes) {
  const auto now = std::chrono::steady_clock::now();
  if (server_speaks_.load(std::memory_order_acquire)) frames_.ServerSpeaks();
  const std::uint64_t resets_before = frames_.resets();
  const std::uint64_t small_frames_before = frames_.small_frames();
  if (const char* const complaint = frames_.Take(bytes, now); complaint != nullptr) return complaint;
  const std::uint64_t resets = frames_.resets() - resets_before;
  if (resets > 0 && !of_peer_->SpendResets(static_cast<double>(resets), now)) {
    return "calls that are taken back, as its peer's other connections do";
  }
  const std::uint64_t small_frames = frames_.small_frames() - small_frames_before;
  if (small_frames > 0 && !of_peer_->SpendSmallFrames(static_cast<double>(small_frames), now)) {
    return "its data in frames of a few bytes";
  }
  return nullptr;
}

// When gRPC closes the descriptor, the client gets a reset: after a plain end, a client that writes against a
// full window would wait for a minute, and the system would keep the connection.
void WatchedConnection::Cut(const char* complaint) {
  std::string address;
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    address = AddressOf(descriptor_);
    const linger no_farewell = {.l_onoff = 1, .l_linger = 0};
    setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &no_farewell, sizeof(no_farewell));
    shutdown(descriptor_, SHUT_RDWR);
  }
  ++floods_closed;
  LogSampled(absl::StrCat("closed a connection: it sends ", complaint),
             absl::StrCat("closed a connection of ", address, ": it sends ", complaint));
}

void WatchedConnection::End() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_over_, true)) return;
  }
  const std::uint64_t over = ended_ + frames_.resets();
  const std::uint64_t left = frames_.calls() - std::min(frames_.calls(), over);
  if (left > 0) of_peer_->SpendResets(static_cast<double>(left), std::chrono::steady_clock::now());
}

bool MayConnect(const std::string& peer) {
  const auto now = std::chrono::steady_clock::now();
  return OfPeers().Of(peer, now)->HasSome(now);
}

std::uint64_t FloodsClosed() { return floods_closed; }

}  // namespace warpfold::server
