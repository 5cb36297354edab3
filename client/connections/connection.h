// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One connection to the target, and what each call on it needs. Internal.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/time/time.h"
#include "client/connections/queue_pool.h"
#include "client/connections/sockets.h"
#include "client/connections/target_load.h"
#include "client/options.h"

namespace warpfold {

// What may end a request early, and its trace. A request may take several calls, which all get these.
struct Interrupts {
  std::stop_token stop = {};
  std::function<bool()> keep_going = nullptr;  // as in CallOptions
  std::string traceparent = {};                // likewise
  std::string tracestate = {};                 // likewise
};
// The time between two calls of keep_going.
inline constexpr absl::Duration kAskedEvery = absl::Milliseconds(50);

// When a call ends, at most a few of its messages are still being sent. A peer that does not receive them
// within this time has stopped reading, or is so slow that replacing the connection does no harm.
inline constexpr absl::Duration kTakenWithin = absl::Seconds(3);

Interrupts InterruptsOf(const CallOptions& options);
// For a call that begins now.
absl::Time DeadlineOf(const CallOptions& options);

// A channel that shares its socket with no other channel. Threads: may be used from any thread.
class Connection {
 public:
  // Does not block: connects when it is first used. Connections to the same target share its `target_load`.
  Connection(const std::string& target, const ClientOptions& options,
             std::shared_ptr<TargetLoad> target_load = std::make_shared<TargetLoad>());
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  // Does not block either.
  ~Connection();

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  TargetLoad& target_load() const { return *target_load_; }
  QueuePool& queues() const { return *queues_; }

  // Whether there is a connection at present. A call on one that is being made waits for it.
  bool IsReady() const;

  // Whether the last attempt to connect has failed. A connection that was made and broke is another thing.
  bool CouldNotConnect() const;

  // When a pause ends: after its time; or, if calls have failed only because there was no connection, as soon
  // as there is one. A peer that accepts connections, and ends them, would else be called without a pause.
  enum class PauseEnds : std::uint8_t { kInTime, kOnceConnected };

  // A pause that gRPC can use: it remakes a broken connection only while a thread waits on it, and until it
  // has, calls fail at once. Tries to connect in the middle of the pause. Returns at its end, or as soon as
  // an interrupt comes. False if keep_going said so. If a peer has accepted the connection by the end of
  // `pause` but has not sent anything yet, this continues for as long as that may take, but not beyond
  // `deadline`: a call would still fail at once, with the error of an earlier attempt to connect.
  bool PauseAndConnect(absl::Duration pause, PauseEnds ends, absl::Time deadline,
                       const Interrupts& interrupts) const;

  // Ends the connection, whatever is in progress on it. False as for Sockets::ShutDown.
  bool BreakOff() const { return sockets_.ShutDown(); }

 private:
  // Whether a peer has accepted the connection but has not sent anything yet, and calls fail at once for that
  // reason.
  bool AwaitsFirstWords() const;

  // Waits until the channel is no longer in `state`, or until `until`.
  void AwaitChange(grpc_connectivity_state state, absl::Time until) const;

  const Sockets sockets_;
  std::shared_ptr<grpc::Channel> channel_;
  const std::shared_ptr<TargetLoad> target_load_;
  const std::unique_ptr<QueuePool> queues_ = std::make_unique<QueuePool>();
};

// The context of one call, with its deadline and its cancellation. Must outlive the call.
class CallScope {
 public:
  // `array` names the array of which the call reduces a part, "" for none.
  // `connection` must outlive this.
  CallScope(const Connection& connection, absl::Time deadline, const Interrupts& interrupts,
            const std::string& array = "");

  const std::shared_ptr<grpc::Channel>& channel() const { return connection_.channel(); }
  grpc::ClientContext& context() { return context_; }
  TargetLoad& target_load() const { return connection_.target_load(); }
  QueuePool& queues() const { return connection_.queues(); }

  // The calling thread calls this whenever it waits. It calls keep_going if it is time, and cancels the call
  // if keep_going says so. `blocked_since`: from when on the thread has waited for a message that gRPC holds;
  // the infinite future if gRPC holds none. Breaks off the connection if this still lasts kTakenWithin after
  // the call's end: the message is partly written. Returns when to call this again.
  absl::Time AskWhetherToGoOn(absl::Time blocked_since);

  // Gives the call up, and no longer calls keep_going.
  void Cancel();

  // Whether the caller has ended the call: keep_going said so, or has thrown, or nobody wants its outcome.
  bool given_up() const { return given_up_; }
  // Whether the caller wants the end of it.
  bool is_cancelled() const { return given_up_ || stop_.stop_requested(); }

  // The deadline, or when the call was found cancelled.
  absl::Time end() const { return end_; }

 private:
  absl::Time AskKeepGoing(absl::Time now);
  absl::Time BreakOffIfLate(absl::Time now, absl::Time blocked_since);

  const Connection& connection_;
  absl::Time end_;
  const std::stop_token stop_;
  grpc::ClientContext context_;
  const std::stop_callback<std::function<void()>> cancel_on_stop_;
  std::function<bool()> keep_going_;
  absl::Time asked_next_;
  bool given_up_ = false;
};

}  // namespace warpfold
