// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Releases Python's lock (the GIL) and takes it again, on threads that may still run when the interpreter
// ends.
//
// While the interpreter ends, Python 3.11 to 3.13 end a daemon thread that asks for the lock with
// pthread_exit, which unwinds its stack: through gRPC and through destructors, which must not be left in this
// way (std::terminate), and through nanobind, which takes it for an exception. Later versions let the thread
// sleep for ever, and so do we, wherever our code asks for the lock. Asking first whether the interpreter is
// ending would not be enough: a thread that is already waiting for the lock is ended as well.
//
// One case remains: nanobind itself runs Python code to convert an argument, such as a class's __dlpack__
// that is written in Python. A thread may still be ended in the middle of that.
#pragma once

#include <Python.h>
#include <cxxabi.h>

namespace warpfold::python {

[[noreturn]] void SleepForEver();

// Runs a function that may ask for Python's lock. Does not return if the interpreter ends meanwhile: the
// thread sleeps until the process has ended, and keeps everything that it has. Objects on `function`'s own
// stack are destroyed before that, without the lock: there should be no Python objects among them.
template <typename Function>
auto UnlessPythonEnds(const Function& function) {
  try {
    return function();
  } catch (const abi::__forced_unwind&) {
    SleepForEver();
  }
}

// Its thread does not have the lock while it lives. Threads: one that has the lock makes and destroys it.
class Unlocked {
 public:
  Unlocked() : thread_(PyEval_SaveThread()) {}
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  friend class LockedAgain;
  PyThreadState* const thread_;
};

// While it lives, the thread that made the Unlocked has the lock again.
class LockedAgain {
 public:
  explicit LockedAgain(const Unlocked& unlocked);
  ~LockedAgain() { PyEval_SaveThread(); }
  LockedAgain(const LockedAgain&) = delete;
  LockedAgain& operator=(const LockedAgain&) = delete;
};

}  // namespace warpfold::python
