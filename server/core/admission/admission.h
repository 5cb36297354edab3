// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Admission control: limits the number of concurrent calls of each kind, and detects when a draining server
// is idle. A call is admitted before its first message is read, so that a rejected call costs only an empty
// gRPC call and the flow-control window of its stream.
//
// Threads: all methods from any thread.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace warpfold::server {

// How long a draining server waits for the Merge that follows a returned partial state. Clients send it as
// soon as all stripes of the array have been reduced.
inline constexpr absl::Duration kMergeWait = absl::Seconds(2);

class Admission {
 public:
  // Each kind has its own limit. A Merge completes reductions that were admitted before, so it must be
  // admitted even if the stripes of its own array have used up the limit for reductions. kSmall are calls
  // about the server. kCheck are calls for its health, which decide whether the process is kept. kWatch are
  // calls that wait for the health to change and whose clients have half-closed, so that they hold next to
  // nothing. kArray are reductions that arrive in a single message. They share the limit of kReduction;
  // 1/kArrayReserveDivisor of it is reserved for them, because a stream may last for an hour.
  enum class Kind : std::uint8_t { kReduction, kMerge, kSmall, kWatch, kArray, kCheck };
  static constexpr int kKinds = 6;
  static constexpr int kArrayReserveDivisor = 16;
  static constexpr int kOthersReserveDivisor = 8;
  // A flag sets how many places reductions and merges have.
  static constexpr int kSmallPlaces = 64;
  static constexpr int kCheckPlaces = 64;
  static constexpr int kWatchPlaces = 1024;

  // The caller, and what it calls for.
  struct Caller {
    // The client's name for the array of which this call reduces a part, "" for none.
    std::string array = "";
    // A party with more than half of a kind's places gets none of the last 1/kOthersReserveDivisor of them.
    std::string party = "";
  };

  // A place among the calls in progress, given back at destruction.
  class Ticket {
   public:
    Ticket() = default;
    Ticket(Ticket&& other) noexcept
        : admission_(std::exchange(other.admission_, nullptr)),
          kind_(other.kind_),
          part_(other.part_),
          party_(std::move(other.party_)) {}
    Ticket& operator=(Ticket&& other) noexcept {
      std::swap(admission_, other.admission_);
      std::swap(kind_, other.kind_);
      std::swap(part_, other.part_);
      std::swap(party_, other.party_);
      return *this;
    }
    ~Ticket() {
      if (admission_ != nullptr) admission_->Leave(kind_, part_, party_);
    }

    // The call reduces a part of an array: others and a Merge will follow from the same client. Nothing
    // follows from calls that neither reduce nor merge, whatever their clients say.
    void MarkAsPart();

   private:
    friend class Admission;
    Ticket(Admission* admission, Kind kind, std::string party)
        : admission_(admission), kind_(kind), party_(std::move(party)) {}
    Admission* admission_ = nullptr;
    Kind kind_ = Kind::kReduction;
    bool part_ = false;
    std::string party_;
  };

  // There are as many places for merges as for reductions.
  explicit Admission(int max_concurrent_reductions);

  // RESOURCE_EXHAUSTED (TOO_MANY_REDUCTIONS, TOO_MANY_CALLS), or the status that was given to the Close
  // function in force.
  //
  // While draining, the server still admits the remaining parts of an array if it has admitted one of them;
  // otherwise the work on the admitted parts would be wasted.
  absl::StatusOr<Ticket> Enter(Kind kind, const Caller& caller);
  absl::StatusOr<Ticket> Enter(Kind kind = Kind::kReduction) { return Enter(kind, Caller()); }

  // Whether all remaining places of this kind are reserved for other clients.
  bool IsNearlyFull(Kind kind) const;

  // Admits only parts of arrays that have begun, and merges.
  void CloseToReductions(absl::Status why);
  // Admits neither. Calls about the server are always admitted.
  void Close(absl::Status why);

  // Call this when a partial state is returned at `now`, before the ticket is given back.
  void StateGivenOut(absl::Time now);

  // Whether, at `now`, no reduction and no Merge is in progress, and none is expected.
  bool IsQuiet(absl::Time now) const;

  // Whether, at `now`, an array is in progress whose client has further calls to make: a part of one or a
  // Merge is in progress, or a Merge is expected.
  bool AwaitsCalls(absl::Time now) const;

  // Blocks until no reduction and no Merge is in progress.
  void WaitUntilEmpty();
  // Likewise; false if it took longer than `timeout`.
  bool WaitUntilEmpty(absl::Duration timeout);

  // Those in progress.
  int reductions() const;
  int merges() const;
  // Both.
  int in_progress() const;

 private:
  using Counts = std::array<int, kKinds>;

  int LimitOf(Kind kind) const;
  void Leave(Kind kind, bool part, const std::string& party);
  static int TakenOf(const Counts& counts, Kind kind);
  bool HasPlaceLocked(Kind kind, const std::string& party) const;
  void RememberLocked(const std::string& array);
  int InProgressLocked() const;

  const int max_concurrent_reductions_;
  mutable std::mutex mutex_;
  std::condition_variable empty_;
  Counts in_progress_ = {};                                 // guarded by mutex_
  std::unordered_map<std::string, Counts> of_parties_;      // guarded by mutex_; those with calls
  int parts_ = 0;                                           // guarded by mutex_; in progress
  absl::Status closed_;                                     // guarded by mutex_; OK while open
  absl::Status closed_to_merges_;                           // guarded by mutex_; likewise
  absl::Time last_state_given_out_ = absl::InfinitePast();  // guarded by mutex_
  // The last arrays of which a part was admitted, at least kMaxArrays of them: when the newer set has this
  // many, it replaces the older one, whose names are forgotten. Guarded by mutex_.
  static constexpr std::size_t kMaxArrays = 4096;
  std::unordered_set<std::string> newer_arrays_;
  std::unordered_set<std::string> older_arrays_;
};

}  // namespace warpfold::server
