// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A client of the simulation and its transport: brings its script's lines to a call, and checks all that the
// call asks and answers.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "server/core/call.h"
#include "server/core/shard.h"
#include "tests/server/stream_script.h"

namespace warpfold::server {

// What is so in the world, as far as clients judge their answers by it.
struct Ledger {
  absl::Time now = absl::UnixEpoch();
  // Calls that have begun and are not answered: how many of each kind each host has.
  std::map<std::string, std::array<int, Admission::kKinds>> inside;
  // With which reason newcomers are refused; "" while they are not.
  std::string closed_to_reductions;
  std::string closed_to_merges;
  bool stopped = false;
  bool device_lost = false;            // and all have been told
  std::map<std::string, int> answers;  // how many of each reason, or code where there is none
  std::string violation;               // the first

  void Expect(bool condition, const std::string& what) {
    if (!condition && violation.empty()) violation = what;
  }

  // Streams and single arrays share their places.
  static int OfKind(const std::array<int, Admission::kKinds>& counts, Admission::Kind kind);
  int Inside(Admission::Kind kind) const;
  int& Count(const std::string& peer, Admission::Kind kind);
  // Whether a call of this kind should find a place, of `places`.
  bool HasPlace(const std::string& peer, Admission::Kind kind, int places);
};

// Threads: one.
class SimulatedClient : private Transport {
 public:
  SimulatedClient(Ledger& ledger, Shard& shard, Script script)
      : ledger_(ledger), shard_(shard), script_(std::move(script)) {}

  // Events, and when there can be one.
  bool begun() const { return begun_; }
  void Begin();
  bool CanSay() const;
  void Say(Random& random);
  // The connection breaks. The call hears of it by an end of messages, by OnLeft, or both, in any order.
  void Break() { gone_ = true; }
  bool CanReportBreak() const { return gone_ && call_.has_value(); }
  void ReportBreak();
  bool CanConfirm() const { return sending_; }
  void Confirm();
  bool CanForget() const { return call_.has_value() && answered_ && !reading_ && !sending_; }
  void Forget() { call_.reset(); }

  // What happens around it.
  void TimePasses(absl::Duration time);
  void OnOwnStart(bool failed);
  void OnStartOfOther(std::uint64_t other);
  void OnOwnSlotFailed() { slot_failed_ = true; }

  // After each event.
  void Check();
  // After its shard has looked at the clock, and at the device.
  void CheckTime() const;
  void CheckDevice() const { Expect(answered_ || !slot_failed_, "a failed slot is not noticed"); }

  bool answered() const { return answered_; }
  bool is_silent() const { return !script_.ends || (script_.kind == Admission::Kind::kWatch && !gone_); }
  const Script& script() const { return script_; }
  const Shard& shard() const { return shard_; }

 private:
  void Read() override;
  void Send(std::string message) override;
  void Answer(const absl::Status& status, std::string response) override;

  void JudgeResult(const std::string& response) const;
  void JudgeError(const absl::Status& status) const;
  bool IsOverdue() const;
  void Expect(bool condition, const std::string& what) const;

  Ledger& ledger_;
  Shard& shard_;
  const Script script_;
  std::optional<Call> call_;
  bool begun_ = false;
  std::string refusal_;  // the reason that it should be refused with at its begin, if any
  absl::Time begun_at_;
  absl::Duration idle_;         // while it was awaited, since it last said something
  absl::Duration slow_;         // while it was awaited, since it last had said enough
  std::size_t said_since_ = 0;  // bytes of the array since then
  std::size_t next_line_ = 0;
  bool reading_ = false;
  bool ended_ = false;
  bool gone_ = false;
  bool answered_ = false;
  bool sending_ = false;
  std::optional<bool> told_serving_;
  bool start_failed_ = false;
  bool slot_failed_ = false;
  bool waits_for_slot_ = false;
  std::map<std::uint64_t, int> starts_of_others_;  // while it waits
  std::weak_ptr<const void> message_;              // the last
};

}  // namespace warpfold::server
