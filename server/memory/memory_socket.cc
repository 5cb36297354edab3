// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/memory/memory_socket.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/error_reasons.h"
#include "server/net/foreign_descriptors.h"

namespace warpfold::server {
namespace {

constexpr int kMaxAccepted = 64;
// Looking after everybody costs some calls to the system for each connection. Parts of registrations, and of
// releases, are therefore done in one go for this long.
constexpr absl::Duration kAtOnce = absl::Milliseconds(1);
// How often the thread checks for free descriptors after they had run out, and for places.
constexpr absl::Duration kLookForPlaces = absl::Milliseconds(50);

}  // namespace

absl::StatusOr<std::unique_ptr<MemorySocket>> MemorySocket::Open(const MemorySocketOptions& options,
                                                                 kernels::Backend& backend,
                                                                 MemoryRegistry& registry) {
  std::unique_ptr<MemorySocket> socket(new MemorySocket(options, backend, registry));
  absl::StatusOr<FileDescriptor> listener = ListenAt(options.path);
  if (!listener.ok()) return listener.status();
  socket->listener_ = *std::move(listener);
  socket->inode_ = InodeOfSocket(options.path);
  socket->wake_ = FileDescriptor(eventfd(0, EFD_CLOEXEC));
  if (!socket->wake_.is_open()) return absl::UnavailableError("there is no descriptor for it");
  socket->thread_ = std::thread([raw = socket.get()] { raw->Run(); });
  return socket;
}

MemorySocket::~MemorySocket() {
  // Before the wait for the thread: a driver that hangs may hold it up until the process is ended.
  RemoveFile();
  if (!thread_.joinable()) return;
  ending_ = true;
  eventfd_write(wake_.get(), 1);
  thread_.join();
  connections_.clear();
}

void MemorySocket::RemoveFile() const {
  if (inode_ != 0 && InodeOfSocket(options_.path) == inode_) unlink(options_.path.c_str());
}

bool MemorySocket::HasSeveralUsers(const MemorySocketOptions& options) {
  return std::any_of(options.users.begin(), options.users.end(),
                     [](uid_t user) { return user != geteuid(); });
}

void MemorySocket::Run() {
  absl::Duration next_release = absl::InfiniteDuration();
  while (!ending_) {
    Await(next_release);
    AcceptAll();
    const absl::Time now = clock_();
    sealer_.Advance(now);
    if (prober_.has_value()) prober_->Advance(now);
    // Each in turn, so that a client that sends without pause does not keep others waiting.
    std::erase_if(connections_, [&](const auto& connection) { return !connection->Serve(now); });
    Repeat([this] { return RegisterNext(); });
    Repeat([&] { return (next_release = registrar_.ReleaseNext()) == absl::ZeroDuration(); });
  }
}

void MemorySocket::Await(absl::Duration next_release) {
  std::vector<pollfd> watched = {{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  // New connections wait in the backlog while the limit is reached, or while there are no descriptors left.
  if (CountPlaces() < kMaxConnections && !accept_failed_) {
    watched.push_back({.fd = listener_.get(), .events = POLLIN, .revents = 0});
  }
  sealer_.Watch(&watched);
  if (prober_.has_value()) prober_->Watch(&watched);
  for (const auto& connection : connections_) watched.push_back(connection->watched());
  poll(watched.data(), watched.size(), LongestWait(next_release));
}

int MemorySocket::LongestWait(absl::Duration next_release) const {
  const absl::Time now = clock_();
  const bool awaits_close =
      std::ranges::any_of(connections_, [](const auto& connection) { return connection->awaits_close(); });
  const bool looks_again = accept_failed_ || awaits_close || places_.size() > connections_.size();
  absl::Time first = now + std::min(next_release, looks_again ? kLookForPlaces : absl::InfiniteDuration());
  first = std::min(first, sealer_.deadline(now));
  if (prober_.has_value()) first = std::min(first, prober_->deadline(now));
  for (const auto& connection : connections_) first = std::min(first, connection->deadline());
  const absl::Duration rest = first - now;
  if (rest == absl::InfiniteDuration()) return -1;
  if (rest <= absl::ZeroDuration()) return 0;
  // A millisecond more, so that it is over when poll returns.
  return static_cast<int>(std::clamp<std::int64_t>(absl::ToInt64Milliseconds(rest) + 1, 0, INT_MAX));
}

void MemorySocket::AcceptAll() {
  // Accepts a limited number at a time: a client that connects again and again must not keep others waiting.
  for (int accepted = 0; accepted < kMaxAccepted && CountPlaces() < kMaxConnections; ++accepted) {
    FileDescriptor connection = Accept(listener_, &accept_failed_);
    if (!connection.is_open()) return;
    const std::optional<uid_t> known = PeerUser(connection.get());
    const bool may_connect = MayConnect(known);
    auto user = std::make_shared<const uid_t>(known.value_or(kNobody));
    places_.push_back(user);
    if (may_connect) {
      connections_.push_back(std::make_unique<MemoryPeer>(
          std::move(connection), std::move(user), rejections_, registrar_, sealer_,
          prober_.has_value() ? &*prober_ : nullptr, options_.idle, options_.room, clock_()));
    } else {
      CloseConnectionElsewhere(std::move(connection), *user, user);
    }
  }
}

void MemorySocket::Repeat(const std::function<bool()>& step) const {
  const absl::Time end = clock_() + kAtOnce;
  while (step() && clock_() < end) continue;
}

bool MemorySocket::RegisterNext() {
  // The first connection of the user whose turn was longest ago: one that has had a turn goes to the end.
  auto next = connections_.end();
  for (auto it = connections_.begin(); it != connections_.end(); ++it) {
    if (!(*it)->registers()) continue;
    if (next == connections_.end() || turns_.LastOf((*it)->user()) < turns_.LastOf((*next)->user()))
      next = it;
  }
  if (next == connections_.end()) return false;
  turns_.Take((*next)->user());
  if ((*next)->RegisterNext()) {
    std::rotate(next, next + 1, connections_.end());
  } else {
    connections_.erase(next);
  }
  return true;
}

std::size_t MemorySocket::CountPlaces() {
  std::erase_if(places_, [](const auto& user) { return user.expired(); });
  return places_.size();
}

bool MemorySocket::MayConnect(std::optional<uid_t> known) {
  if (!known.has_value()) {
    rejections_.Add(kNobody, reason::kNotAllowed, "the server's user namespace does not have this user");
    return false;
  }
  const uid_t user = *known;
  if (user != geteuid() &&
      std::find(options_.users.begin(), options_.users.end(), user) == options_.users.end()) {
    rejections_.Add(user, reason::kNotAllowed, "this user is not one of --memory_socket_users");
    return false;
  }
  const auto of_user = std::count_if(places_.begin(), places_.end(), [user](const auto& place) {
    const std::shared_ptr<const uid_t> owner = place.lock();
    return owner != nullptr && *owner == user;
  });
  if (static_cast<std::size_t>(of_user) < kMaxOfOneUser) return true;
  rejections_.Add(user, MemoryRejections::kConnections,
                  absl::StrCat("this user has ", kMaxOfOneUser, " connections already"));
  return false;
}

}  // namespace warpfold::server
