// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The servers of a client, the connections to each, and which servers are to be left out for a while.
// Internal.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/connections/connection.h"
#include "client/connections/target_load.h"
#include "client/options.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold {

// Threads: may be used from any thread.
class Targets {
 private:
  struct Line {
    std::shared_ptr<const Connection> connection;
    int users = 0;
    absl::Time rests_until = absl::InfinitePast();
  };
  struct Target {
    std::string name;
    std::shared_ptr<TargetLoad> target_load = std::make_shared<TargetLoad>();
    // Connections are never removed: leases point to them.
    std::vector<std::unique_ptr<Line>> lines;
    absl::Time left_out_until = absl::InfinitePast();
    absl::Time full_until = absl::InfinitePast();
    std::optional<v1::TransferAdvice> advice;
  };

 public:
  // A connection in use by one call. It counts as busy until the Lease is destroyed. Must not outlive the
  // Targets.
  class Lease {
   public:
    Lease(Lease&& other) noexcept
        : targets_(std::exchange(other.targets_, nullptr)),
          target_(other.target_),
          line_(other.line_),
          connection_(std::move(other.connection_)) {}
    Lease& operator=(Lease&& other) noexcept {
      std::swap(targets_, other.targets_);
      std::swap(target_, other.target_);
      std::swap(line_, other.line_);
      std::swap(connection_, other.connection_);
      return *this;
    }
    ~Lease();

    const Connection& connection() const { return *connection_; }
    std::size_t target() const { return target_; }

   private:
    friend class Targets;
    Lease(Targets* targets, std::size_t target, Line* line)
        : targets_(targets), target_(target), line_(line), connection_(line->connection) {}
    Targets* targets_ = nullptr;
    std::size_t target_ = 0;
    Line* line_ = nullptr;
    std::shared_ptr<const Connection> connection_;
  };

  // `names` is not empty; options.connections is at least 1.
  Targets(std::vector<std::string> names, const ClientOptions& options);

  std::size_t count() const { return names_; }

  // Targets that a call found not to serve; empty for none.
  using Failed = std::set<std::size_t>;

  // The connection to target `preferred` that has the fewest users, and of those the one that may be used
  // soonest (Rest); a new one if all are busy and there may be more. While the target is full (NoteFull),
  // only one that is connected, if there is one. While that target is left out, a connection to another;
  // while all are left out, to one that has not `failed`, and among those to the one that is left out for the
  // shortest time: another call with a short timeout may have caused a target to be left out that does serve.
  Lease Take(std::size_t preferred, absl::Time now, const Failed& failed = {});

  // Returns the target whose connection Take would give now.
  std::size_t Best(std::size_t preferred, absl::Time now, const Failed& failed) const;

  // The targets in turn, for calls that may go to any.
  std::size_t Next();

  // Gives this lease, and later ones, a new connection to its target: the server at the other end of the old
  // one is leaving, and a name may have several addresses.
  void Renew(Lease& lease);

  // The next user of the connection waits until then: a full server has rejected a call on it, and named this
  // time. A connection stands for a caller, since each caller has one as long as there may be more: others,
  // and those of this client that are served, do not wait. If a call on it has failed, `until` is the
  // present: nobody waits, but Take prefers connections that have not failed since. If a later time has been
  // set before, it remains.
  void Rest(const Lease& lease, absl::Time until);
  // When the next call on this connection may begin.
  absl::Time RestsUntil(const Lease& lease) const;

  // The server may have no place for more connections of this client.
  void NoteFull(std::size_t target, absl::Time until);
  // Whether another connection to the lease's target is connected, while this one is not, and no other target
  // serves.
  bool OnlyOthersWork(const Lease& lease, absl::Time now) const;

  // Leaves out a target that does not serve, while another does.
  void LeaveOut(std::size_t target, absl::Time until);
  bool IsLeftOut(std::size_t target, absl::Time now) const;

  // The target's advice about sending arrays, if it was asked.
  std::optional<v1::TransferAdvice> advice(std::size_t target) const;
  void KeepAdvice(std::size_t target, const v1::TransferAdvice& advice);

 private:
  std::size_t BestOf(std::size_t preferred, absl::Time now, const Failed& failed) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Line& LeastBusyOrNew(Target& target, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::size_t names_;
  const ClientOptions options_;
  mutable absl::Mutex mutex_;
  std::vector<Target> targets_ ABSL_GUARDED_BY(mutex_);
  std::size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace warpfold
