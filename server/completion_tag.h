// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What is given to gRPC with an asynchronous operation and comes back from the completion queue.
//
// Threads: armed by one thread, completed by the queue's; gRPC orders the two.
#pragma once

#include <functional>
#include <utility>

namespace warpfold::server {

class CompletionTag {
 public:
  // The tag for one operation. Keeps what `on_complete` holds, the call first of all, until it completes.
  void* Arm(std::function<void(bool ok)> on_complete) {
    on_complete_ = std::move(on_complete);
    return this;
  }

  // Called with what the completion queue returned; may destroy the tag.
  static void Complete(void* tag, bool ok) {
    const auto on_complete = std::exchange(static_cast<CompletionTag*>(tag)->on_complete_, nullptr);
    on_complete(ok);
  }

  // For an operation that will never complete.
  void Disarm() { on_complete_ = nullptr; }

 private:
  std::function<void(bool ok)> on_complete_;
};

}  // namespace warpfold::server
