// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a call tells Python while it is under way, and what Python may answer: signals and progress.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <list>

#include "client/options.h"
#include "client/python/native/mapped_memory.h"
#include "client/python/native/python_lock.h"
#include "client/python/native/view.h"

namespace warpfold::python {

// Watches one call. Threads: one that has Python's lock makes and destroys it.
class Watch {
 public:
  // `progress` is None, or called with the bytes that were sent so far.
  explicit Watch(nanobind::object progress) : progress_(std::move(progress)) {}
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Lets the call ask this, which must outlive it.
  void Attach(CallOptions& options);

  // Lets the call read these elements also where they lie in a mapped file that is cut meanwhile, which ends
  // the call. Until Release, or to the Watch's end.
  void Protect(const View& view);
  void Release() { ranges_.clear(); }

  // To be called when the call, or a part of it, begins and ends, on its thread. Python is asked in between
  // alone: what is destroyed later, as a stream that was given up, does not go on.
  void Begin(const Unlocked& unlocked) { unlocked_ = &unlocked; }
  void End() { unlocked_ = nullptr; }

  // At the end of the call, or of a part of it, with Python's lock: raises what a signal's handler or
  // `progress` has raised, which has cancelled the call, and ValueError where a mapped file was cut.
  void Rethrow();

 private:
  bool KeepGoing();
  // With Python's lock; false where Python has raised something.
  bool AskPython();
  bool WasCut() const;

  const Unlocked* unlocked_ = nullptr;  // of the call, or the part of it, that is under way
  nanobind::object progress_;
  std::atomic<std::uint64_t> sent_bytes_ = 0;
  std::uint64_t told_bytes_ = 0;
  std::exception_ptr raised_;
  std::list<MappedRange> ranges_;
};

}  // namespace warpfold::python
