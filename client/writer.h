// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// An array on its way to the server, piece by piece:
//
//   absl::StatusOr<warpfold::Writer> writer = client.OpenWriter({.operators = {"sum"}}, type);
//   while (...) if (!writer->Write(bytes).ok()) break;
//   absl::StatusOr<warpfold::Reduction> reduction = writer->Commit();
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/result.h"

namespace warpfold {

// Threads: one at a time. Cancel from another one through CallOptions::stop.
class Writer {
 public:
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;
  // Cancels the call unless Commit was called.
  ~Writer();

  // Appends to the array. Copies `bytes`; any cut is allowed, also inside an element. Blocks while the
  // server takes data more slowly than it is written. An error is final: the server's own where it
  // has answered one, so that there is no need to call Commit for it.
  absl::Status Write(std::span<const std::byte> bytes);

  // Ends the array and waits for its reduction; after an error of Write it answers the same error. The
  // server refuses an array that ends inside an element.
  absl::StatusOr<Reduction> Commit();

 private:
  friend class Client;
  struct State;
  explicit Writer(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace warpfold
