// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// An array on its way to the server, piece by piece:
//
//   absl::StatusOr<warpfold::Writer> writer = client.OpenWriter({.operators = {"sum"}}, type);
//   while (...) if (!writer->Write(bytes).ok()) break;
//   absl::StatusOr<warpfold::Reduction> reduction = writer->Commit();
//
// A producer that may pause for a long time calls Flush before the pause and AwaitEnd during it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/result.h"

namespace warpfold {

// Threads: one at a time. Cancel from another thread through CallOptions::stop. A moved-from Writer may only
// be destroyed, or assigned to.
class Writer {
 public:
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;
  // Cancels the call unless Commit was called.
  ~Writer();

  // Appends to the array. Copies `bytes`, which may end anywhere, even inside an element, and gathers them
  // into messages of 1 MiB, or of half a second. Blocks while the server accepts data more slowly than it is
  // written, and until the network has taken what comes half a second after the last Write, or later. An
  // error is final: it is the server's own if it has sent one, so there is no need to call Commit to get it.
  // DEADLINE_EXCEEDED once the call's time is over, however little was written. FAILED_PRECONDITION after
  // Commit; after a Commit that failed, its error.
  absl::Status Write(std::span<const std::byte> bytes);

  // Sends what Write has gathered. A server gives up an array if nothing of it arrives for
  // ServerLimits.idle_timeout_seconds. Errors as for Write.
  absl::Status Flush();

  // Waits up to `timeout` for the call to end before its Commit: a rejection, the deadline, a broken
  // connection. True if it has ended: Write, Flush and Commit then return the reason. The end is noticed only
  // here, and in Write and Flush when they send; the deadline is noticed in every Write.
  bool AwaitEnd(absl::Duration timeout);

  // Ends the array and waits for its reduction; after an error of Write it returns the same error. The server
  // rejects an array that ends inside an element.
  absl::StatusOr<Reduction> Commit();

 private:
  friend class Client;
  struct State;
  explicit Writer(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace warpfold
