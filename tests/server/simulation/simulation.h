// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The whole core in one thread: a service with shards, a device whose slots finish in any order, fail or
// hang, clients of all methods, and a clock. A seed chooses who is there and what happens next; the same seed
// gives the same schedule.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "server/core/calls/service.h"
#include "server/core/calls/shard.h"
#include "tests/server/fake_backend.h"
#include "tests/server/piece_heap.h"
#include "tests/server/simulation/simulated_client.h"
#include "tests/server/simulation/stream_script.h"

namespace warpfold::server {

// Threads: one. For one Run.
class World {
 public:
  explicit World(std::uint64_t seed);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Lets things happen at random, then everything that still can, until all calls have had a response.
  // Returns what went wrong first, or "".
  std::string Run();

  // How many slots were started on pieces, and on parts that lie on several devices.
  int piece_starts() const { return backend_.behaviour.piece_starts; }
  int starts_across() const { return backend_.behaviour.starts_across; }

  // How many responses there were of each reason, or code if there is none.
  const std::map<std::string, int>& answers() const { return ledger_.answers; }

 private:
  class WatchedSlot;
  class CallCounter : public CallObserver {
   public:
    void OnBegin(const std::shared_ptr<const LiveCall>&) override { ++begun; }
    void OnEnd(const std::shared_ptr<const LiveCall>&, const CallRecord&) override { ++ended; }
    int begun = 0;
    int ended = 0;
  };
  struct SimulatedShard {
    std::unique_ptr<Shard> shard;
    bool notified = false;  // a slot has finished, and the shard has not heard of it
  };
  // A call of a shard that is not simulated: it only takes a place.
  struct OtherCall {
    std::string peer;
    Admission::Kind kind;
    Admission::Ticket ticket;
  };

  void MakeOneFarAhead();
  void MakeShards();
  void FillPlaces();
  void LeaveAPlace();
  void MakeClients();
  KeptArrays MakeArrays();

  // Called by slots.
  bool OnStart(std::uint64_t identity);
  absl::Status StartTrial(const std::function<absl::Status()>& start);
  absl::Status StartStore(const std::function<absl::Status()>& start);
  void OnStarted(std::uint64_t identity);

  void RandomEvent();
  void EventOf(std::size_t client);
  void EventOfTheService();
  void Drain();
  void FinishSlot(std::size_t n);
  void FinishSlots();
  void Notify(SimulatedShard& shard);
  void TakeTurns(SimulatedShard& shard);
  // The time is noticed only at the next look.
  void MomentPasses(absl::Duration time);
  void TimePasses(absl::Duration time);
  void WatchTheDevice();
  void Check();

  // The fair end.
  void Settle();
  bool AllAnswered() const;
  void LetTheSilentTimeOut();
  void CheckEnd();

  Random random_;
  Ledger ledger_;
  PieceHeap heap_;  // messages come in it
  const int devices_;
  FakeBackend backend_;
  const int places_;
  Service service_;
  std::vector<OtherCall> others_;
  std::vector<std::unique_ptr<WatchedSlot>> slots_;
  std::vector<SimulatedShard> shards_;
  std::deque<Turns::Member> silent_;  // of each party in each shard, if one is far ahead
  std::deque<SimulatedClient> clients_;
  std::vector<std::uint64_t> working_;  // whose ranges the device works on, as in backend_.behaviour
  // Odds: one in this many, 0 for never.
  const std::size_t finishes_at_once_;
  const std::size_t fails_;
  const bool is_slow_;  // much time passes between events
  const bool may_hang_;
  bool device_lost_ = false;
  bool device_hangs_ = false;  // it ends nothing any more
  int drained_ = 0;            // how far
  CallCounter counter_;
};

}  // namespace warpfold::server
