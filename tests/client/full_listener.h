// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A port on which attempts to connect get no response, like that of a host that has lost power: a connection
// that nobody accepts fills its queue, and the kernel drops those that come after it.
#pragma once

#include <string>

namespace warpfold {

class FullListener {
 public:
  FullListener();
  ~FullListener();
  FullListener(const FullListener&) = delete;
  FullListener& operator=(const FullListener&) = delete;

  std::string target() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  int listener_ = -1;
  int waiting_ = -1;  // the connection that fills the queue
  int port_ = 0;
};

}  // namespace warpfold
