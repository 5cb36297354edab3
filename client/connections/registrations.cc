// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/connections/registrations.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/connections/status.h"

namespace warpfold {
namespace {

// A live server responds far sooner; a client that gives memory back gains nothing from a longer wait.
constexpr absl::Duration kLongestFarewell = absl::Milliseconds(100);
// The time between two attempts to connect to a server with many waiting connections.
constexpr absl::Duration kConnectPause = absl::Milliseconds(10);
// A server counts a connection until another thread of it has closed that, and closes new ones meanwhile.
constexpr int kMostClosed = 20;

constexpr std::size_t kMaxAnswerBytes = 4096;

absl::Status Broken(absl::string_view what, int error) {
  return absl::UnavailableError(absl::StrCat("the memory socket ", what, ": ", std::strerror(error)));
}

absl::Status ClosedEach() {
  return absl::UnavailableError(
      "the memory socket closes each new connection: the server takes at most 128 connections of one user, "
      "and only those of its own user and of --memory_socket_users");
}

// Sends a message, with or without a descriptor, as a whole or not at all. Returns 0, or an errno.
int SendWith(int socket, const std::string& bytes, std::optional<int> descriptor) {
  iovec part = {.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (descriptor.has_value()) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &*descriptor, sizeof(int));
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? errno : 0;
}

bool IsHangUp(int error) { return error == EPIPE || error == ECONNRESET || error == ENOTCONN; }

// A request that cannot be sent; both sides are in step as before.
absl::Status NotSent(int error) {
  if (error == EBADF) return absl::InvalidArgumentError("what is to be registered is no open descriptor");
  if (error == EMSGSIZE) return absl::InvalidArgumentError("the memory socket takes no message of this size");
  return absl::ResourceExhaustedError(
      absl::StrCat("the memory socket takes no message now: ", std::strerror(error)));
}

}  // namespace

// In a forked process freed_'s destructor would wait for ever for threads of the parent that wait.
Registrations::~Registrations() {
  if (!IsOwnProcess()) static_cast<void>(freed_.release());
}

absl::Status Registrations::Connect(const CallOptions& options) {
  const Patience patience(options);
  if (absl::Status status = TakeTurn(patience); !status.ok()) return status;
  const absl::Cleanup end = [this] { EndTurn(); };
  return ConnectInTurn(patience);
}

absl::StatusOr<Registration> Registrations::Register(const v1::MemoryRequest& request,
                                                     std::optional<int> descriptor,
                                                     const CallOptions& options) {
  Patience patience(options);
  if (absl::Status status = TakeTurn(patience); !status.ok()) return status;
  const absl::Cleanup end = [this] { EndTurn(); };
  absl::StatusOr<std::string> token = RegisterInTurn(request, descriptor, patience);
  // The server may have closed the connection long before the request, and may close new ones for a while.
  for (int closed = 1; hung_up_ && closed <= kMostClosed; ++closed) {
    if (closed > 1) {
      absl::SleepFor(std::min(kConnectPause, patience.Slice()));
      if (absl::Status status = CheckFor(patience); !status.ok()) return status;
    }
    token = RegisterInTurn(request, descriptor, patience);
  }
  if (hung_up_) token = ClosedEach();
  // The keep_going that is called meanwhile may have forked, and have continued in the new process, too.
  if (absl::Status status = CheckProcess(); !status.ok()) return status;
  if (!token.ok()) return token.status();
  const std::lock_guard lock(mutex_);
  ++registered_;
  return Registration{*std::move(token), connections_};
}

void Registrations::Unregister(const Registration& registration) {
  if (!IsOwnProcess()) return;
  {
    const std::lock_guard lock(mutex_);
    if (registration.connection != connections_) return;
    --registered_;
    given_back_.push_back(registration.token);
    // The thread that has the turn tells the server when its turn ends.
    if (!std::exchange(is_free_, false)) return;
  }
  EndTurn();
}

absl::Status Registrations::CheckProcess() const {
  if (IsOwnProcess()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this process was forked from the one that has connected to the memory socket: connect after the fork");
}

absl::Status Registrations::CheckFor(const Patience& patience) const {
  if (absl::Status status = patience.Check(); !status.ok()) return status;
  return CheckProcess();
}

absl::Status Registrations::TakeTurn(const Patience& patience) {
  // This comes before the lock, which may have been held by a thread that this process does not have.
  if (absl::Status status = CheckProcess(); !status.ok()) return status;
  while (true) {
    if (absl::Status status = CheckFor(patience); !status.ok()) return status;
    std::unique_lock lock(mutex_);
    if (!is_free_ && asking_ == std::this_thread::get_id()) {
      return absl::FailedPreconditionError(
          "the memory socket is in use by the call that this one interrupts, and would not be free before "
          "its end");
    }
    const auto slice = absl::ToChronoNanoseconds(patience.Slice());
    if (!freed_->wait_for(lock, slice, [this] { return is_free_; })) continue;
    is_free_ = false;
    asking_ = std::this_thread::get_id();
    return absl::OkStatus();
  }
}

void Registrations::EndTurn() {
  if (!IsOwnProcess()) return;
  do {
    // This does not wait again for a server that already owes a response.
    const CallOptions farewell = {.timeout = owed_.empty() ? kLongestFarewell : absl::ZeroDuration()};
    Patience patience(farewell);
    GiveBack(patience).IgnoreError();
  } while (!TryEndTurn());
}

bool Registrations::TryEndTurn() {
  const std::lock_guard lock(mutex_);
  is_free_ = !IsInStep() || is_full_ || given_back_.empty();
  asking_ = {};
  if (is_free_) freed_->notify_one();
  return is_free_;
}

absl::Status Registrations::ConnectInTurn(const Patience& patience) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path_.empty() || path_.size() >= sizeof(address.sun_path) || absl::StrContains(path_, '\0')) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the path of a Unix socket has 1 to ", sizeof(address.sun_path) - 1, " bytes, and no zero bytes"));
  }
  path_.copy(address.sun_path, path_.size());
  if (!socket_.Open(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK)) return Broken("cannot be made", errno);
  absl::Cleanup closes = [this] { socket_.Close(); };
  while (connect(socket_.descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno != EAGAIN) return Broken("cannot be connected to", errno);
    if (absl::Status status = CheckFor(patience); !status.ok()) return status;
    absl::SleepFor(kConnectPause);
  }
  std::move(closes).Cancel();
  const std::lock_guard lock(mutex_);
  ++connections_;
  registered_ = 0;
  given_back_.clear();
  return absl::OkStatus();
}

absl::StatusOr<std::string> Registrations::RegisterInTurn(const v1::MemoryRequest& request,
                                                          std::optional<int> descriptor, Patience& patience) {
  hung_up_ = false;
  if (socket_.descriptor() < 0) {
    if (absl::Status status = ConnectInTurn(patience); !status.ok()) return status;
  }
  // A request may have been given up, because of a status or of an exception from keep_going, and there may
  // be no further request for a long time. Closing the connection makes the server forget what it registers
  // too late.
  const absl::Cleanup forget = [this] {
    if (IsOwnProcess() && !owed_.empty() && !IsUsed()) Close();
  };
  if (absl::Status status = GiveBack(patience); !status.ok()) return status;
  return Ask(request, descriptor, patience);
}

absl::Status Registrations::GiveBack(Patience& patience) {
  while (IsInStep()) {
    SendFarewells();
    const bool makes_room = !owed_.empty();
    if (absl::Status status = TakeOwed(patience); !status.ok()) return status;
    if (is_full_ && !makes_room) break;  // later, then
    // A token that came too late must be given back, too.
    const std::lock_guard lock(mutex_);
    if (given_back_.empty()) break;
  }
  return absl::OkStatus();
}

// All at once: the server responds in the order of the requests.
void Registrations::SendFarewells() {
  is_full_ = false;
  while (const std::optional<std::string> token = NextToGiveBack()) {
    v1::MemoryRequest request;
    request.mutable_unregister()->set_token(*token);
    const int error = SendWith(socket_.descriptor(), request.SerializeAsString(), std::nullopt);
    if (error == 0) {
      owed_.push_back(Owed::kFarewell);
      continue;
    }
    if (IsHangUp(error)) return Break(error);
    is_full_ = true;
    const std::lock_guard lock(mutex_);
    return given_back_.push_back(*token);
  }
}

std::optional<std::string> Registrations::NextToGiveBack() {
  const std::lock_guard lock(mutex_);
  if (given_back_.empty()) return std::nullopt;
  std::string token = std::move(given_back_.back());
  given_back_.pop_back();
  return token;
}

absl::Status Registrations::TakeOwed(Patience& patience) {
  while (!owed_.empty()) {
    if (absl::Status status = AwaitAnswer(patience); !status.ok()) return status;
    const Owed kind = owed_.front();
    absl::StatusOr<std::string> token = TakeAnswer();
    if (!IsInStep()) return token.status();
    if (kind == Owed::kFarewell || !token.ok()) continue;  // the server has forgotten what it does not know
    const std::lock_guard lock(mutex_);
    given_back_.push_back(*std::move(token));
  }
  return absl::OkStatus();
}

// A request and its response: the token.
absl::StatusOr<std::string> Registrations::Ask(const v1::MemoryRequest& request,
                                               std::optional<int> descriptor, Patience& patience) {
  if (!IsInStep()) return Broken("has failed before", EPIPE);
  if (const int error = SendWith(socket_.descriptor(), request.SerializeAsString(), descriptor); error != 0) {
    if (!IsHangUp(error)) return NotSent(error);
    Break(error);
    return Broken("cannot be written to", error);
  }
  owed_.push_back(Owed::kToken);
  patience.Sent();
  if (absl::Status status = AwaitAnswer(patience); !status.ok()) return status;
  absl::StatusOr<std::string> token = TakeAnswer();
  if (token.ok() && token->empty()) return MakeMismatch("a registration without a token");
  return token;
}

absl::Status Registrations::AwaitAnswer(Patience& patience) {
  absl::Status status = patience.AwaitAnswer(socket_.descriptor());
  if (absl::IsUnavailable(status)) Break(ETIMEDOUT);
  return status;
}

// The next response, which has come: its token, if it has one.
absl::StatusOr<std::string> Registrations::TakeAnswer() {
  owed_.pop_front();
  std::array<char, kMaxAnswerBytes> bytes;
  const ssize_t size = recv(socket_.descriptor(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (size <= 0) {
    const int error = size < 0 ? errno : ECONNRESET;
    Break(error);
    return Broken("gives no answer", error);
  }
  v1::MemoryResponse response;
  if (!response.ParseFromArray(bytes.data(), static_cast<int>(size))) {
    Break(EPROTO);
    return MakeMismatch("it is not readable");
  }
  if (response.code() == 0) return response.token();
  const auto code = static_cast<absl::StatusCode>(response.code());
  if (response.reason().empty()) return absl::Status(code, response.message());
  return MakeError(code, response.reason(), response.message());
}

// Requests and responses are no longer in step. A server that has closed the connection has forgotten
// everything, so a new connection is just as good. A server that is silent, or does not speak the protocol,
// gets no more requests; what it has registered stays.
void Registrations::Break(int error) {
  hung_up_ = IsHangUp(error);
  if (hung_up_) return Close();
  broken_ = true;
  owed_.clear();
}

bool Registrations::IsUsed() {
  const std::lock_guard lock(mutex_);
  return registered_ > 0;
}

void Registrations::Close() {
  socket_.Close();
  owed_.clear();
}

}  // namespace warpfold
