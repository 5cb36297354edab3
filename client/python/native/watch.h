// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a call reports to Python while it is in progress, and how Python may respond: signals and progress.
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

  // Lets the call use this object, which must outlive it.
  void Attach(CallOptions& options);

  // Lets the call read these elements even if they lie in a mapped file that is truncated meanwhile, which
  // ends the call. This lasts until Release, or until the end of the Watch.
  void Protect(const View& view);
  void Release() { ranges_.clear(); }

  // Call these when the call, or a part of it, begins and ends, on its thread. Python is asked only in
  // between: something that is destroyed later, such as a stream that was given up, does not go on.
  void Begin(const Unlocked& unlocked) { unlocked_ = &unlocked; }
  void End() { unlocked_ = nullptr; }

  // At the end of the call, or of a part of it, with Python's lock: raises what a signal handler or
  // `progress` has raised, which has cancelled the call, and ValueError if a mapped file was truncated.
  void Rethrow();

 private:
  bool KeepGoing();
  // With Python's lock; false if Python has raised something.
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
