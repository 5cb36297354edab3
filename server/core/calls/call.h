// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One call of any method, independent of the transport. The transport delivers events to it (OnMessage,
// OnEnd, ...), and it requests actions of the transport (Read, Answer, ...). Nothing blocks.
//
//   Begin -> admitted? -> Read -> OnMessage or OnEnd -> ... -> Answer
//
// The call requests a message only when there is room for it (backpressure through HTTP/2 flow control), and
// only after it has been admitted, so that the server never reads messages of a rejected call. The call is
// answered exactly once. After that it holds only its response and ignores further events. While the server
// does not read, gRPC buffers up to one flow-control window of the client's data. A health Watch is
// long-lived and not read from, so the server first reads the client's half-close. A client that does not
// read its response is cut off once it has been idle for too long, or sooner if the server ends or holds too
// many such responses. If a message that was sent before the response is unread, too, the call also keeps its
// place among the reductions until then.
//
// Threads: the shard's only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/reduction.h"
#include "server/core/admission/admission.h"
#include "server/core/admission/allow_list.h"
#include "server/core/admission/methods.h"
#include "server/core/admission/pending_answers.h"
#include "server/core/admission/turns.h"
#include "server/core/call_observer.h"
#include "server/core/calls/array_session.h"
#include "server/core/calls/call_timer.h"
#include "server/core/trace_context.h"
#include "server/core/watched_time.h"
#include "server/core/wire/message.h"

namespace warpfold::server {

class Shard;

// The idle limit of health checks, of watches that have not begun, and of calls whose only message has not
// come, if that of other calls is longer. There are few places for such calls, and a client that stalls them
// would keep others from asking.
inline constexpr absl::Duration kCheckIdle = absl::Seconds(2);

// How many bytes of a message that is followed by another a transport may hold back: gRPC's write buffer.
inline constexpr std::uint64_t kMaxHeldByTransport = 64 << 10;

// What a call asks of its transport. All functions return at once.
class Transport {
 public:
  virtual ~Transport() = default;
  // Asks for the next message: OnMessage or OnEnd follows, unless the call is answered first.
  virtual void Read() = 0;
  // Tells the client that the call has been admitted, ahead of everything else. At most once.
  virtual void TellAdmitted() = 0;
  // Sends a message that does not end the call: OnSent follows. `is_followed`: there is more to send at once,
  // so the message may wait and go out with it.
  virtual void Send(std::string message, bool is_followed) = 0;
  // Ends the call; a `response` goes out before it if the status is OK. OnDelivered follows once both are
  // written, or OnDisconnected.
  virtual void Answer(const absl::Status& status, std::optional<std::string> response) = 0;
  // Cancels the stream of a client that does not read the response.
  virtual void CutOff() = 0;
};

struct CallInfo {
  std::string method;                 // "/package.Service/Method", as the client wrote it
  std::string peer;                   // for the log
  std::string array;                  // the client's name for the array that this is a part of; "" for none
  std::string identity = kAnonymous;  // who calls, as allow_list.h has it
  std::optional<TraceContext> trace = std::nullopt;
  absl::Time deadline = absl::InfiniteFuture();
  bool expects_admission = false;  // the client sends nothing large before it learns that it is admitted
};

class Call {
 public:
  // `shard` and `transport` must outlive the call.
  Call(Shard& shard, Transport& transport, CallInfo info);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void Begin();

  // Events.
  void OnMessage(Message message);
  void OnEnd();           // the client sends no more
  void OnSent();          // Send is done
  void OnDelivered();     // the answer is on its way
  void OnDisconnected();  // the client is gone
  void OnHealthChanged();
  // Ends the call with `why` if it takes an array or is a Merge. Calls of other methods continue.
  void Stop(const absl::Status& why);
  // Ends the call, whichever it is.
  void End(const absl::Status& why);
  // Stops the call if it is overdue, or if its client does not read the answer. `idle_at`: when the shard's
  // queue was last found empty.
  void CheckTime(absl::Time now, absl::Time idle_at);

  bool answered() const { return answered_; }

 private:
  static Admission::Kind KindOf(Method method);

  // Null if the method takes no array.
  std::unique_ptr<ArraySession> MakeSession();

  void Admit();
  void Read();
  Turns::Arrival TurnArrival() const;
  void TakeMessage();
  void TakeRequest(Message message);
  void OnProgress();
  void Follow(const absl::StatusOr<ArraySession::Need>& need);
  void AnswerMerge(const Message& message);
  void AnswerInfo(const Message& message);
  void AnswerHealth(Message message);
  void BeginWatch();
  void SendHealth();
  void Send(std::string message, bool is_followed = false);
  void SendOutput(bool is_last);
  void OnOutputTaken();
  void ReportProgress(absl::Time when);
  void AnswerSession();
  void AnswerList(const Message& message);
  void AnswerGet(const Message& message);
  void AnswerDelete(const Message& message);
  void Reflect(const Message& message);
  void Answer(const absl::Status& status, std::optional<std::string> response = std::nullopt);
  std::string MethodName() const;
  // A message has been requested, and has not come.
  bool awaits_message() const { return reading_ && !arrived_.has_value(); }
  bool awaits_taker() const { return answered_ && (outgoing_.is_under_way || pending_answer_.has_value()); }
  absl::Duration PatienceWithTaker() const;
  absl::Duration PatienceWithClient() const;

  Shard& shard_;
  Transport& transport_;
  const CallInfo info_;
  const std::string party_;  // for whom places and slots count
  const Method method_;
  CallTimer timer_;
  std::shared_ptr<LiveCall> live_;  // null if nobody observes
  Admission::Ticket ticket_;
  std::unique_ptr<ArraySession> session_;  // of methods that take arrays
  // These are the spec and the request id of a Merge once they have been accepted. Its record has them.
  std::optional<kernels::ReductionPlan> merged_;
  std::string merge_request_id_;
  std::optional<Turns::Member> turns_;  // of methods that keep the thread for long, until the answer
  bool reading_ = false;                // from the request for a message until it is taken
  std::optional<Message> arrived_;      // a message that has come and waits for its turn
  absl::Time arrived_at_;               // when the last message came
  bool half_closed_ = false;            // the client can send no more
  bool answered_ = false;
  WatchedTime untaken_;                                  // how long the client has not read the answer
  std::optional<PendingAnswers::Entry> pending_answer_;  // counts the answer until it is delivered
  bool stopped_ = false;                                 // Stop or End has ended the call
  // The last message that does not end the call.
  struct {
    bool is_under_way = false;
    std::uint64_t bytes = 0;
    std::uint64_t held_bytes = 0;  // these go out with what follows the message
  } outgoing_;
  std::uint64_t taken_bytes_ = 0;  // how much of such messages the client has taken

  // A call of Watch uses all of these, and one of Check only the second.
  struct {
    bool is_requested = false;
    bool knows_service = true;
    std::optional<bool> told_serving;  // what the client was last told
  } watch_;
};

}  // namespace warpfold::server
