// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A socket that forks do not share. A process that is forked from this one would otherwise keep the
// connection open after this process has ended, and the peer would not learn of that end. Internal.
#pragma once

namespace warpfold {

// In a forked process all of its parent's OwnSockets are closed, from the fork on: those of the parent stay
// as they are. This applies only to fork(), since handlers of pthread_atfork do it: clone(), vfork() and
// _Fork() run none. Threads: one at a time. Forks: any thread, at any time, except for a signal handler that
// interrupts Open or Close.
class OwnSocket {
 public:
  OwnSocket();
  ~OwnSocket();
  OwnSocket(const OwnSocket&) = delete;
  OwnSocket& operator=(const OwnSocket&) = delete;

  // A new socket(2), also closed at an exec, in place of the one before. False, with errno set, if there is
  // none.
  bool Open(int family, int type);
  void Close();

  // -1 if there is none.
  int descriptor() const { return descriptor_; }

 private:
  class All;
  int descriptor_ = -1;
};

}  // namespace warpfold
