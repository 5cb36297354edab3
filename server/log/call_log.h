// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One line of log for each finished call. Among calls that fail, only the first ten of each reason in each
// second get a line; the others are counted. A failure that is the server's or its device's own (INTERNAL,
// UNKNOWN, DEVICE_LOST, LAUNCH_REFUSED) is a warning.
#pragma once

#include <cstddef>
#include <memory>

#include "server/core/call_observer.h"
#include "server/core/clock.h"
#include "server/log/log_sampler.h"

namespace warpfold::server {

// How much memory a record counts for from the end of its call until its line is written: the queue of the
// log is bounded (logging.h), even if clients make all texts as long as they may be.
std::size_t BytesInQueue(const CallRecord& call);

// Threads: any.
class CallLog : public CallObserver {
 public:
  explicit CallLog(Clock clock) : clock_(std::move(clock)) {}

  void Add(const CallRecord& call);

  void OnBegin(const std::shared_ptr<const LiveCall>&) override {}
  void OnEnd(const std::shared_ptr<const LiveCall>&, const CallRecord& record) override { Add(record); }

  // Logs how many calls had no line. Call this now and then, and with `all` at the end.
  void SayLeftOut(bool all = false);

 private:
  const Clock clock_;
  LogSampler sampler_;
};

}  // namespace warpfold::server
