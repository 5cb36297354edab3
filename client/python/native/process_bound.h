// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// An object that belongs to the process that made it.
#pragma once

#include <unistd.h>

#include <memory>
#include <utility>

#include "client/python/native/python_lock.h"

namespace warpfold::python {

// A T that is destroyed by a thread that has Python's lock, but without the lock, since it may have to wait
// for the network. A process that was forked from this one has the same sockets, and its T would end its
// parent's calls on them: there it is never destroyed.
template <typename T, typename... Args>
std::shared_ptr<T> MakeProcessBound(Args&&... args) {
  const auto destroy = [process = getpid()](T* object) {
    if (getpid() != process) return;
    const Unlocked unlocked;
    delete object;
  };
  return {new T(std::forward<Args>(args)...), destroy};
}

}  // namespace warpfold::python
