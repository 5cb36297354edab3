// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/python/native/python_lock.h"

#include <unistd.h>

namespace warpfold::python {
namespace {

// Unlike PyGILState_Ensure, this handles a thread whose state Python has already freed.
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
