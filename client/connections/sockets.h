// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The sockets that gRPC opens for a channel, so that one whose peer reads no more can be shut down. gRPC
// itself does that neither when the calls end nor with the channel, as long as a write is under way (ADR 12).
// Internal.
#pragma once

#include <grpcpp/support/channel_arguments.h>

#include <memory>

namespace warpfold {

// Threads: may be used from any thread.
class Sockets {
 public:
  Sockets();

  // A channel with these arguments reports its sockets here, also those that it opens later. Those of Unix
  // get wider send buffers, too (send_buffer.h): gRPC has one hook for new sockets.
  void ReportFrom(grpc::ChannelArguments& arguments) const;

  // Shuts down those that are open. Their calls end with UNAVAILABLE; the next one connects anew. False where
  // that needs a descriptor and there is none: to be tried again.
  bool ShutDown() const;

  // Whether a peer has taken one of those that are open: it is a connection, or will be one once the peer has
  // said its first words. One that still waits for an answer of the peer's machine does not count.
  bool AnyIsTaken() const;

 private:
  class Known;
  class Reporter;
  std::shared_ptr<Known> known_;
};

}  // namespace warpfold
