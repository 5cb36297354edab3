// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What this process has registered over one connection to the server's memory socket. Internal.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
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

// The connection of this process to the memory socket, and what is registered over it. Lives as long as
// anything that was. Answers have no names: the server gives them in the order of the questions, and what it
// still owes is remembered. Threads: any; one at a time has the turn to ask. Processes: only the one that has
// made it; another one that has a copy, from a fork, is without the connection, since the server forgets the
// memory when no process has that any more.
class Registrations {
 public:
  explicit Registrations(std::string path) : path_(std::move(path)) {}
  ~Registrations() = default;
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;

  // To be called once, before all else. Errors of all questions: those of Patience::Check, also before
  // anything is asked, and FAILED_PRECONDITION in another process, and from within a question's keep_going.
  absl::Status Connect(const CallOptions& options);

  // Registers something. The server hangs up on who has had nothing registered for a while (memory.proto),
  // and when it ends: what was registered over that connection is forgotten, and a new connection is made.
  // A server may still register what the caller no longer waits for. The client then gives it back: at once
  // if nothing else is registered, else before the next question. INVALID_ARGUMENT where the descriptor is
  // none, or the request is too long to be sent.
  absl::StatusOr<Registration> Register(const v1::MemoryRequest& request, std::optional<int> descriptor,
                                        const CallOptions& options);

  // Tells the server, if it is still connected as it was, and waits for its answer for a tenth of a second at
  // most. Does nothing in another process.
  void Unregister(const Registration& registration);

 private:
  // The server answers a registration by its token. It also answers when something is given back.
  enum class Owed { kToken, kFarewell };

  bool IsOwnProcess() const { return getpid() == process_; }
  // FAILED_PRECONDITION in a process that was forked.
  absl::Status CheckProcess() const;
  // Patience::Check, whose keep_going may have forked, and have gone on in the new process.
  absl::Status CheckFor(const Patience& patience) const;
  absl::Status TakeTurn(const Patience& patience);
  void EndTurn();
  bool TryEndTurn();
  // The rest is for the thread that has the turn.
  absl::Status ConnectInTurn(const Patience& patience);
  absl::StatusOr<std::string> RegisterInTurn(const v1::MemoryRequest& request, std::optional<int> descriptor,
                                             Patience& patience);
  // Tells the server of all that was given back, and takes all answers.
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
  absl::Mutex mutex_;
  bool is_free_ ABSL_GUARDED_BY(mutex_) = true;            // nobody has the turn
  std::thread::id asking_ ABSL_GUARDED_BY(mutex_);         // who has it, to ask
  std::uint64_t connections_ ABSL_GUARDED_BY(mutex_) = 0;  // how many there were; the last one is in use
  // How many registrations the last connection has.
  int registered_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> given_back_ ABSL_GUARDED_BY(mutex_);  // tokens that the server has to forget

  OwnSocket socket_;       // without a connection the next question makes one
  bool broken_ = false;    // questions and answers are not in step any more
  bool hung_up_ = false;   // the last question has found the connection closed by the server
  bool is_full_ = false;   // the connection takes no more farewells for now
  std::deque<Owed> owed_;  // the answers that the server still owes, in the order in which they come
};

}  // namespace warpfold
