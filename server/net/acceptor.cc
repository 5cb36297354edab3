// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/acceptor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/shared/send_buffer.h"
#include "server/log/logging.h"
#include "server/net/foreign_descriptors.h"
#include "server/net/watched_connection.h"

namespace warpfold::server {
namespace {

// The pause before the next attempt when the system is short of memory or descriptors.
constexpr auto kAcceptPause = std::chrono::milliseconds(10);
constexpr auto kPollInterval = std::chrono::seconds(1);

// Whether accept4 may be tried again at once: it was interrupted, or a connection has broken before it was
// accepted, for which accept(2) also names errors of the network. Other errors, like a lack of memory or a
// rule of a security module, may come again for the same connection.
bool MayTryAgainAtOnce(int error) {
  switch (error) {
    case ECONNABORTED:
    case EINTR:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
      return true;
    default:
      return false;
  }
}

int OpenReserve() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

}  // namespace

Acceptor::Acceptor(std::vector<Listener> listeners, std::size_t max_connections, HandOver hand_over)
    : listeners_(std::move(listeners)),
      max_connections_(max_connections),
      hand_over_(std::move(hand_over)),
      connections_(max_connections, (max_connections + 1) / 2),
      stop_event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      reserve_(OpenReserve()) {}

Acceptor::~Acceptor() {
  Stop();
  close(stop_event_);
  if (reserve_ >= 0) close(reserve_);
}

void Acceptor::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Acceptor::Stop() {
  const std::uint64_t one = 1;
  stops_ = true;  // without an event, the thread sees this within kPollInterval
  if (thread_.joinable()) {
    while (write(stop_event_, &one, sizeof(one)) < 0 && errno == EINTR) continue;
    thread_.join();
  }
  for (Listener& listener : listeners_) listener.Close();
}

ConnectionCounts Acceptor::counts() const {
  return {.open = open_,
          .limit = max_connections_,
          .accepted = accepted_,
          .floods = FloodsClosed(),
          .beyond_limit = beyond_limit_,
          .left_calls = left_calls_,
          .no_descriptors = no_descriptors_};
}

void Acceptor::Run() {
  std::vector<pollfd> polled = {{.fd = stop_event_, .events = POLLIN, .revents = 0}};
  std::vector<const Listener*> owners = {nullptr};
  for (const Listener& listener : listeners_) {
    for (const int socket : listener.sockets()) {
      polled.push_back({.fd = socket, .events = POLLIN, .revents = 0});
      owners.push_back(&listener);
    }
  }
  while (!stops_) {
    constexpr int kPollIntervalMs = std::chrono::milliseconds(kPollInterval).count();
    if (poll(polled.data(), polled.size(), kPollIntervalMs) < 0) {
      if (errno != EINTR) std::this_thread::sleep_for(kAcceptPause);  // the system has no memory for it
      continue;
    }
    if (stops_) return;  // which ended the wait
    CountOpen();
    bool plenty = true;
    for (std::size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents != 0) plenty = AcceptAll(*owners[i], polled[i].fd) && plenty;
    }
    if (!plenty) std::this_thread::sleep_for(kAcceptPause);
  }
}

void Acceptor::CountOpen() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_count_) return;
  next_count_ = now + kPollInterval;
  connections_.RemoveClosed();
  open_ = connections_.count();
}

bool Acceptor::AcceptAll(const Listener& listener, int socket) {
  // No more than this at once, so that the other sockets get their turn.
  constexpr int kMaxAtOnce = 64;
  for (int i = 0; i < kMaxAtOnce; ++i) {
    const int descriptor = accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor >= 0) {
      Accepted(listener, socket, descriptor);
    } else if (errno == EAGAIN) {
      return true;
    } else if (errno == EMFILE || errno == ENFILE) {
      if (!RefuseOne(socket)) return false;
    } else if (!MayTryAgainAtOnce(errno)) {
      // The connection may stay in the queue, where it would be the next one again.
      LogSampled("cannot accept a connection",
                 absl::StrCat("cannot accept a connection: ", std::strerror(errno)));
      return false;
    }
  }
  return true;
}

void Acceptor::Accepted(const Listener& listener, int socket, int descriptor) {
  const std::string peer = PeerOf(descriptor);
  // The peer has already left, for example after checking whether the port is open. gRPC would treat this as
  // an error.
  if (peer.empty()) return CloseSocket(FileDescriptor(descriptor));
  // The last free descriptors are kept for gRPC, which ends the process when it gets none.
  if (!connections_.HasRoom(peer)) {
    return Refuse(descriptor, beyond_limit_,
                  absl::StrCat("--max_connections=", max_connections_, ", half of it for one peer"));
  }
  if (!MayConnect(peer))
    return Refuse(descriptor, left_calls_, "it has taken back, or left behind, more calls than it may");
  WidenSendBuffer(descriptor);  // for messages of results (docs/adr/0134)
  connections_.Add(descriptor, peer);
  open_ = connections_.count();
  ++accepted_;
  hand_over_(listener, socket, descriptor);
}

bool Acceptor::RefuseOne(int socket) {
  if (reserve_ >= 0) close(std::exchange(reserve_, -1));
  const int descriptor = accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (descriptor >= 0) Refuse(descriptor, no_descriptors_, "the limit on open files leaves no descriptor");
  reserve_ = OpenReserve();
  return descriptor >= 0 && reserve_ >= 0;
}

void Acceptor::Refuse(int descriptor, std::atomic<std::uint64_t>& count, const std::string& why) {
  ++count;
  LogSampled(absl::StrCat("refused a connection: ", why),
             absl::StrCat("refused a connection of ", AddressOf(descriptor), ": ", why));
  CloseSocket(FileDescriptor(descriptor));
}

}  // namespace warpfold::server
