// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A client of the simulation and its transport: brings its script's lines to a call, and checks everything
// that the call asks for and returns.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/core/calls/call.h"
#include "server/core/calls/shard.h"
#include "tests/server/drive_segments.h"
#include "tests/server/piece_heap.h"
#include "tests/server/simulation/simulated_arrays.h"
#include "tests/server/simulation/stream_script.h"

namespace warpfold::server {

// What is true in the world, as far as clients judge the responses they get by it.
struct Ledger {
  absl::Time now = absl::UnixEpoch();
  // Calls that have begun and have had no response: how many of each kind each host has.
  std::map<std::string, std::array<int, Admission::kKinds>> inside;
  // The reason with which newcomers are rejected; "" while they are not.
  std::string closed_to_reductions;
  std::string closed_to_merges;
  bool stopped = false;
  bool device_lost = false;        // and all have been told
  bool has_turns_at_once = false;  // no message waits for longer than an event lasts, unless it is held
  SimulatedArrays arrays;
  std::map<std::string, int> answers;  // how many of each reason, or code if there is none
  std::string violation;               // the first

  void Expect(bool condition, const std::string& what) {
    if (!condition && violation.empty()) violation = what;
  }

  // Streams and single arrays share their places.
  static int OfKind(const std::array<int, Admission::kKinds>& counts, Admission::Kind kind);
  int Inside(Admission::Kind kind) const;
  int& Count(const std::string& peer, Admission::Kind kind);
  // Whether a call of this kind should find a place among `places`.
  bool HasPlace(const std::string& peer, Admission::Kind kind, int places);
};

// Threads: one.
class SimulatedClient : private Transport {
 public:
  SimulatedClient(Ledger& ledger, Shard& shard, PieceHeap& heap, Script script)
      : ledger_(ledger),
        shard_(shard),
        heap_(heap),
        script_(std::move(script)),
        expects_admission_(script_.lines.size() % 2 == 0),
        idle_limit_(script_.kind == Admission::Kind::kCheck || script_.kind == Admission::Kind::kWatch
                        ? std::min(shard.service().limits.call.idle, kCheckIdle)
                        : shard.service().limits.call.idle),
        reader_(!script_.has_columns) {}

  // Events, and when there can be one.
  bool begun() const { return begun_; }
  void Begin();
  bool CanSay() const;
  void Say(Random& random);
  // The connection breaks. The call learns of it from an end of messages, from OnDisconnected, or both, in
  // any order.
  void Break() { gone_ = true; }
  bool CanReportBreak() const { return gone_ && call_.has_value(); }
  void ReportBreak();
  bool CanConfirm() const { return sending_ && taken_ < script_.takes; }
  void Confirm();
  bool CanTakeAnswer() const { return undelivered_ && script_.takes_answer && !sending_; }
  void TakeAnswer();
  bool CanForget() const { return call_.has_value() && answered_ && !reading_ && !sending_ && !undelivered_; }
  void Forget() { call_.reset(); }

  // What happens around it.
  void TimePasses(absl::Duration time);
  // The shard looks at the clock.
  void OnTick();
  void OnOwnStart(bool failed);
  // `party_size`: how many clients of its own shard its party has.
  void OnStartOfOther(std::uint64_t other, bool same_party, int party_size);
  void OnOwnSlotFailed() { slot_failed_ = true; }
  // Its shard is about to look at the device: it sees what has failed by then.
  void OnLook() { must_notice_ = slot_failed_; }

  // After each event.
  void Check();
  // After its shard has looked at the clock, and at the device.
  void CheckTime() const;
  void CheckDevice() const { Expect(answered_ || !must_notice_, "a failed slot is not noticed"); }

  bool answered() const { return answered_; }
  bool is_silent() const {
    return !script_.ends || taken_ >= script_.takes || (script_.kind == Admission::Kind::kWatch && !gone_);
  }
  const Script& script() const { return script_; }
  // For what went wrong.
  std::string State() const {
    return absl::StrCat("said ", next_line_, " of ", script_.lines.size(), ", took ", taken_,
                        reading_ ? ", is asked" : "", sending_ ? ", is sent to" : "",
                        gone_ ? ", is gone" : "");
  }
  Shard& shard() const { return shard_; }
  std::string party() const { return script_.peer.substr(0, script_.peer.rfind(':')); }

 private:
  void Read() override;
  void TellAdmitted() override;
  void Send(std::string message, bool is_followed) override;
  void Answer(const absl::Status& status, std::optional<std::string> response) override;
  void CutOff() override;

  // Whether it is the client's turn.
  bool IsAwaited() const { return reading_ || (sending_ && TakesMessages(script_)); }
  void CountProgress(std::size_t bytes);
  void TakePart(const std::string& message);
  void TakeReflection(const std::string& message);
  void GiveUpPlace() { --ledger_.Count(script_.peer, script_.kind); }
  std::vector<std::vector<std::uint64_t>> RowsOf(const SegmentReader& reader) const;
  void JudgeResult(const std::string& response);
  void JudgeError(const absl::Status& status) const;
  // A message may outlast the read that follows it only if a slot may be started on it.
  bool IsMessageLetGo() const;
  bool IsOverdue() const;
  // Whether it had its time to take the response.
  bool HasKeptAnswerWaiting() const;
  void Expect(bool condition, const std::string& what) const;
  // From when on it may be told that it is idle, and by when it has to be told.
  absl::Duration LeastIdle() const;
  absl::Duration MostIdle() const;

  Ledger& ledger_;
  Shard& shard_;
  PieceHeap& heap_;
  const Script script_;
  const bool expects_admission_;
  const absl::Duration idle_limit_;
  std::optional<Call> call_;
  bool begun_ = false;
  std::string refusal_;  // the reason with which it should be rejected at its begin, if any
  absl::Time begun_at_;
  absl::Duration idle_;  // while it was awaited, since it last said something
  absl::Duration slow_;  // while it was awaited, since it had last said enough
  // The call counts a message that waited for its turn behind results that were taken meanwhile, so its
  // windows of the pace may begin elsewhere: it then has one window more, or one less.
  bool counts_in_order_ = true;
  std::size_t said_since_ = 0;  // bytes of the array since then
  std::size_t next_line_ = 0;
  bool told_admitted_ = false;
  bool reading_ = false;
  bool ended_ = false;
  bool gone_ = false;
  bool answered_ = false;
  absl::Duration untaken_;    // for how long, as its shard counts time
  absl::Duration unseen_;     // not in it yet: since the shard looked at the clock
  bool undelivered_ = false;  // the response has not been taken
  bool sending_ = false;
  std::size_t sending_bytes_ = 0;
  bool is_followed_ = false;      // what is sent is followed by another message or the response
  std::size_t taken_ = 0;         // how many messages
  SegmentReader reader_;          // of the messages that were sent to it
  std::string put_;               // the token of the array that it has put
  bool keeps_its_place_ = false;  // the response is there, but what was sent before is not taken
  std::optional<bool> told_serving_;
  bool start_failed_ = false;
  bool must_notice_ = false;  // it must notice a failed slot
  bool slot_failed_ = false;
  bool waits_for_slot_ = false;
  std::map<std::uint64_t, int> starts_of_others_;  // while it waits
  std::weak_ptr<const void> message_;              // the last
};

}  // namespace warpfold::server
