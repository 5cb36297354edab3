// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/connections/connection.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "client/connections/channel_keeper.h"
#include "client/connections/grpc_process.h"
#include "client/connections/target_names.h"
#include "proto/metadata.h"
#include "proto/shared/steady_time.h"
#include "proto/text.h"

namespace warpfold {
namespace {

// gRPC's wait for a connection cannot be interrupted.
constexpr absl::Duration kStopCheckedEvery = absl::Milliseconds(10);

// Despite gRPC's name for it this is how long connecting may take, which includes TLS and the server's first
// frame. Calls wait for it, and with gRPC's default of 20 s, if a host does not respond, they end with their
// own deadline before another address or server is tried. 3 s are enough for a lost packet and three round
// trips of 0.6 s.
constexpr absl::Duration kConnectsWithin = absl::Seconds(3);

constexpr absl::Duration kShortestKeepalive = absl::Seconds(1);
constexpr absl::Duration kLongestKeepalive = absl::Hours(24);

grpc::ChannelArguments Arguments(const std::string& target, const ClientOptions& options,
                                 const Sockets& sockets) {
  grpc::ChannelArguments arguments;
  // gRPC asks a proxy that the environment names (http_proxy), which cannot reach this machine's loopback.
  if (IsOfThisMachine(target)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  sockets.ReportFrom(arguments);
  // Without this, channels to the same target would share one socket.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Retries are ours: gRPC's own would keep references to the array.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // The default first pause of a second would make most of our retries pointless.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 5000);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(kConnectsWithin)));
  // A write that the peer's kernel does not accept for 20 s closes a TCP connection (TCP_USER_TIMEOUT, which
  // gRPC sets with keepalive), even that of a call that may take longer. Pings detect a peer that accepted
  // everything and then died; servers punish frequent pings, and pings without a call.
  const absl::Duration interval = std::clamp(options.keepalive, kShortestKeepalive, kLongestKeepalive);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(absl::ToInt64Milliseconds(interval)));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  // By default gRPC sends only two pings until data is sent, but a server may work for longer.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return arguments;
}

// gRPC ends the process if a header has characters that are not allowed.
bool IsTraceparent(absl::string_view text) {
  constexpr absl::string_view kForm = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-00";
  if (text.size() != kForm.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_hex = absl::ascii_isdigit(text[i]) || (text[i] >= 'a' && text[i] <= 'f');
    if (kForm[i] == '-' ? text[i] != '-' : !is_hex) return false;
  }
  return true;
}

void AddTrace(const Interrupts& call, grpc::ClientContext& context) {
  if (!IsTraceparent(call.traceparent)) return;
  context.AddMetadata("traceparent", call.traceparent);
  if (call.tracestate.empty() || !IsText(call.tracestate, kMaxTracestateBytes)) return;
  context.AddMetadata("tracestate", call.tracestate);
}

}  // namespace

Interrupts InterruptsOf(const CallOptions& options) {
  return {options.stop, options.keep_going, options.traceparent, options.tracestate};
}

absl::Time DeadlineOf(const CallOptions& options) { return SteadyNow() + options.timeout; }

Connection::Connection(const std::string& target, const ClientOptions& options,
                       std::shared_ptr<TargetLoad> target_load)
    : channel_(grpc::CreateCustomChannel(
          UriOf(target),
          options.credentials == nullptr ? grpc::InsecureChannelCredentials() : options.credentials,
          Arguments(target, options, sockets_))),
      target_load_(std::move(target_load)) {}

Connection::~Connection() { GiveUp(std::move(channel_)); }

bool Connection::IsReady() const {
  return channel_->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
}

bool Connection::CouldNotConnect() const {
  return channel_->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_TRANSIENT_FAILURE;
}

bool Connection::AwaitsFirstWords() const { return CouldNotConnect() && sockets_.AnyIsTaken(); }

bool Connection::PauseAndConnect(absl::Duration pause, PauseEnds ends, absl::Time deadline,
                                 const Interrupts& interrupts) const {
  const absl::Time start = SteadyNow();
  const auto since_start = [start] { return SteadyNow() - start; };
  const auto pauses = [&] {
    if (since_start() < pause) return true;
    return since_start() < pause + kConnectsWithin && SteadyNow() < deadline && AwaitsFirstWords();
  };
  bool asked_to_connect = false;
  absl::Duration asked_next = absl::ZeroDuration();
  bool was_ready = channel_->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY;
  while (!interrupts.stop.stop_requested() && pauses()) {
    if (interrupts.keep_going && since_start() >= asked_next) {
      if (!interrupts.keep_going()) return false;
      asked_next = since_start() + kAskedEvery;
    }
    const grpc_connectivity_state state = channel_->GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY && !was_ready && ends == PauseEnds::kOnceConnected) return true;
    was_ready = state == GRPC_CHANNEL_READY;  // the old one may end only now
    // gRPC has a timer for this, but gRPC 1.51 sometimes forgets it when several are set at once.
    if (state != GRPC_CHANNEL_READY && !asked_to_connect && since_start() >= pause / 2) {
      grpc::experimental::ChannelResetConnectionBackoff(channel_.get());
      asked_to_connect = true;
    }
    const absl::Duration left = pause - since_start();
    const bool ends_soon = left > absl::ZeroDuration() && left < kStopCheckedEvery;
    AwaitChange(state, SteadyNow() + (ends_soon ? left : kStopCheckedEvery));
  }
  return true;
}

// gRPC's WaitForStateChange does not take the event if it cannot wait, and aborts when the event comes later.
void Connection::AwaitChange(grpc_connectivity_state state, absl::Time until) const {
  static std::atomic<bool> has_timers = true;
  if (!has_timers) return absl::SleepFor(until - SteadyNow());
  std::unique_ptr<grpc::CompletionQueue> queue = queues_->Take();
  channel_->NotifyOnStateChange(state, ToSystemTime(until), queue.get(), /*tag=*/nullptr);
  void* tag = nullptr;
  bool ok = false;
  const absl::Time latest = until + kLatestTimer;
  do {  // at least once, even if the machine was suspended meanwhile
    if (AwaitEvent(*queue, &tag, &ok, latest) == Waited::kEvent) return queues_->GiveBack(std::move(queue));
  } while (SteadyNow() < latest);
  has_timers = false;
  static_cast<void>(queue.release());  // the event may still come
}

CallScope::CallScope(const Connection& connection, absl::Time deadline, const Interrupts& interrupts,
                     const std::string& array)
    : connection_(connection),
      end_(deadline),
      stop_(interrupts.stop),
      cancel_on_stop_(interrupts.stop, [this] { context_.TryCancel(); }),
      keep_going_(interrupts.keep_going),
      asked_next_(SteadyNow() + kAskedEvery) {
  if (!array.empty()) context_.AddMetadata(metadata::kArray, array);
  AddTrace(interrupts, context_);
  if (deadline != absl::InfiniteFuture()) context_.set_deadline(ToSystemTime(deadline));
}

absl::Time CallScope::AskWhetherToGoOn(absl::Time blocked_since) {
  const absl::Time now = SteadyNow();
  const absl::Time asked_next = AskKeepGoing(now);
  return std::min(asked_next, BreakOffIfLate(now, blocked_since));
}

void CallScope::Cancel() {
  given_up_ = true;
  keep_going_ = nullptr;
  context_.TryCancel();
  end_ = std::min(end_, SteadyNow());
}

absl::Time CallScope::AskKeepGoing(absl::Time now) {
  if (!keep_going_) return absl::InfiniteFuture();
  if (now >= asked_next_) {
    asked_next_ = now + kAskedEvery;
    bool goes_on = false;
    try {
      goes_on = keep_going_();
    } catch (...) {
      Cancel();
      throw;
    }
    if (!goes_on) {
      Cancel();
      return absl::InfiniteFuture();
    }
  }
  return asked_next_;
}

absl::Time CallScope::BreakOffIfLate(absl::Time now, absl::Time blocked_since) {
  if (stop_.stop_requested()) end_ = std::min(end_, now);
  // A thread that comes long after the end has not waited yet.
  const absl::Time late = std::max(end_, blocked_since) + kTakenWithin;
  if (now < late) return late;
  return connection_.BreakOff() ? absl::InfiniteFuture() : now + kTakenWithin;
}

}  // namespace warpfold
