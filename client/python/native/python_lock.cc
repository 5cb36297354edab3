// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/python/native/python_lock.h"

#include <unistd.h>

namespace warpfold::python {
namespace {

// Python allows for a thread whose state it has freed by now, unlike PyGILState_Ensure.
void TakeLock(PyThreadState* thread) {
  UnlessPythonEnds([thread] { PyEval_RestoreThread(thread); });
}

}  // namespace

void SleepForEver() {
  while (true) pause();
}

Unlocked::~Unlocked() { TakeLock(thread_); }

LockedAgain::LockedAgain(const Unlocked& unlocked) { TakeLock(unlocked.thread_); }

}  // namespace warpfold::python
