// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What this process has registered over one connection to the server's memory socket. Internal.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/connections/own_socket.h"
#include "client/connections/patience.h"
#include "client/options.h"
#include "warpfold/v1/memory.pb.h"

namespace warpfold {

// What the server knows, by its token, and the connection over which it was registered: a token ends with its
// connection.
struct Registration {
  std::string token;
  std::uint64_t connection = 0;
};

// The connection of this process to the memory socket, and what is registered over it. Lives as long as any
// registration over it. Responses have no ids: the server sends them in the order of the requests, and the
// client remembers which ones are still due. Threads: any; one at a time has the turn to make a request.
// Processes: only the one that made it; another one that has a copy, from a fork, does not have the
// connection, since the server forgets the memory when no process has that any more.
class Registrations {
 public:
  explicit Registrations(std::string path) : path_(std::move(path)) {}
  ~Registrations();
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;

  // Call this once, before anything else. Errors of all requests: those of Patience::Check, even before
  // anything is sent, and FAILED_PRECONDITION in another process, and from within a request's keep_going.
  absl::Status Connect(const CallOptions& options);

  // Registers something. The server closes a connection that has had nothing registered for a while
  // (memory.proto), and all of them when it ends: registrations over that connection are then forgotten, and
  // a new connection is made. It is made again for 0.2 s if the server closes it at once, as one beyond the
  // limit. A server may still register what the caller no longer waits for. The client then gives it back: at
  // once if nothing else is registered, otherwise before the next request. INVALID_ARGUMENT if the descriptor
  // is invalid, or the request is too long to be sent.
  absl::StatusOr<Registration> Register(const v1::MemoryRequest& request, std::optional<int> descriptor,
                                        const CallOptions& options);

  // Tells the server, if the same connection still exists, and waits for its response for a tenth of a second
  // at most. Does nothing in another process.
  void Unregister(const Registration& registration);

  // FAILED_PRECONDITION in a process that was forked.
  absl::Status CheckProcess() const;

 private:
  // The server responds to a registration with its token. It also responds when something is given back.
  enum class Owed { kToken, kFarewell };

  bool IsOwnProcess() const { return getpid() == process_; }
  // Patience::Check, whose keep_going may have forked, and have continued in the new process.
  absl::Status CheckFor(const Patience& patience) const;
  absl::Status TakeTurn(const Patience& patience);
  void EndTurn();
  bool TryEndTurn();
  // The rest is for the thread that has the turn.
  absl::Status ConnectInTurn(const Patience& patience);
  absl::StatusOr<std::string> RegisterInTurn(const v1::MemoryRequest& request, std::optional<int> descriptor,
                                             Patience& patience);
  // Tells the server of everything that was given back, and reads all responses.
  absl::Status GiveBack(Patience& patience);
  void SendFarewells();
  std::optional<std::string> NextToGiveBack();
  absl::Status TakeOwed(Patience& patience);
  absl::StatusOr<std::string> Ask(const v1::MemoryRequest& request, std::optional<int> descriptor,
                                  Patience& patience);
  absl::Status AwaitAnswer(Patience& patience);
  absl::StatusOr<std::string> TakeAnswer();
  void Break(int error);
  bool IsInStep() const { return socket_.descriptor() >= 0 && !broken_; }
  bool IsUsed();
  void Close();

  const std::string path_;
  const pid_t process_ = getpid();
  std::mutex mutex_;
  // absl::Mutex would wait for a time of day (ADR 140). Never null, except in the destructor.
  std::unique_ptr<std::condition_variable> freed_ = std::make_unique<std::condition_variable>();
  // These are guarded by mutex_.
  bool is_free_ = true;            // nobody has the turn
  std::thread::id asking_;         // the thread that has it, to make a request
  std::uint64_t connections_ = 0;  // how many there have been; the last one is in use
  // How many registrations the last connection has.
  int registered_ = 0;
  std::vector<std::string> given_back_;  // tokens that the server has to forget

  OwnSocket socket_;       // without a connection the next request makes one
  bool broken_ = false;    // requests and responses are no longer in step
  bool hung_up_ = false;   // the last request found the connection closed by the server
  bool is_full_ = false;   // the connection accepts no more unregistrations for now
  std::deque<Owed> owed_;  // the responses that are still due, in the order in which they come
};

}  // namespace warpfold
