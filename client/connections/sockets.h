// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The sockets that gRPC opens for a channel, so that one whose peer no longer reads can be shut down. gRPC
// itself does that neither when the calls end nor with the channel, as long as a write is in progress (ADR
// 12). Internal.
#pragma once

#include <grpcpp/support/channel_arguments.h>

#include <memory>

namespace warpfold {

// Threads: may be used from any thread.
class Sockets {
 public:
  Sockets();

  // A channel with these arguments reports its sockets here, including those that it opens later. Unix
  // sockets also get larger send buffers (send_buffer.h): gRPC has one hook for new sockets.
  void ReportFrom(grpc::ChannelArguments& arguments) const;

  // Shuts down those that are open. Their calls end with UNAVAILABLE; the next one connects again. False if
  // this needs a descriptor and there is none: try again later.
  bool ShutDown() const;

  // Whether a peer has accepted one of the open sockets: it is a connection, or will be one once the peer has
  // sent its first bytes. A socket that still waits for a response from the peer's machine does not count.
  bool AnyIsTaken() const;

 private:
  class Known;
  class Reporter;
  std::shared_ptr<Known> known_;
};

}  // namespace warpfold
