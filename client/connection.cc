// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/connection.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/time/clock.h"

namespace warpfold {
namespace {

// gRPC's wait for a connection cannot be interrupted.
constexpr absl::Duration kStopCheckedEvery = absl::Milliseconds(10);

grpc::ChannelArguments Arguments() {
  grpc::ChannelArguments arguments;
  // Else channels to the same target share one socket.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Retries are ours: gRPC's own would keep references to the array.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // The default first pause of a second would make most of our retries pointless.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 5000);
  // A write that the peer's kernel does not take for 20 s closes a TCP connection (TCP_USER_TIMEOUT, which
  // gRPC sets with keepalive). Until then it holds the array, beyond any deadline. No pings: servers
  // punish frequent ones.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, std::numeric_limits<int>::max() - 1);
  return arguments;
}

}  // namespace

Connection::Connection(const std::string& target,
                       const std::shared_ptr<grpc::ChannelCredentials>& credentials)
    : channel_(grpc::CreateCustomChannel(
          target, credentials == nullptr ? grpc::InsecureChannelCredentials() : credentials, Arguments())) {}

void Connection::PauseAndConnect(absl::Duration pause, const std::stop_token& stop) const {
  const absl::Time start = absl::Now();
  const absl::Time end = start + pause;
  bool asked_to_connect = false;
  const bool was_ready = channel_->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY;
  while (!stop.stop_requested() && absl::Now() < end) {
    const grpc_connectivity_state state = channel_->GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY && !was_ready) return;
    // gRPC has a timer for this, but that of 1.51 is sometimes forgotten when several are set at once.
    if (state != GRPC_CHANNEL_READY && !asked_to_connect && absl::Now() - start >= pause / 2) {
      grpc::experimental::ChannelResetConnectionBackoff(channel_.get());
      asked_to_connect = true;
    }
    channel_->WaitForStateChange(state, absl::ToChronoTime(std::min(end, absl::Now() + kStopCheckedEvery)));
  }
}

CallScope::CallScope(const Connection& connection, absl::Time deadline, std::stop_token stop)
    : channel_(connection.channel()), cancel_on_stop_(std::move(stop), [this] { context_.TryCancel(); }) {
  if (deadline != absl::InfiniteFuture()) context_.set_deadline(absl::ToChronoTime(deadline));
}

}  // namespace warpfold
