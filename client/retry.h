// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// When a call is tried again. Internal.
#pragma once

#include <stop_token>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/connection.h"
#include "client/options.h"

namespace warpfold {

// Threads: one at a time; one object per call.
class RetryLoop {
 public:
  // The attempts are made on `connection`.
  RetryLoop(const ClientOptions& options, const Connection& connection, absl::Time deadline,
            std::stop_token stop);

  // Whether to try again after `status`; if so, returns after a pause, or once there is a connection again.
  // `took_data` says that a part of the array may have reached the server: sending it all again would double
  // the load on a server in trouble.
  bool Again(const absl::Status& status, bool took_data);

 private:
  const Connection& connection_;
  const absl::Time deadline_;
  const std::stop_token stop_;
  int attempts_left_;
  absl::Duration pause_;
};

}  // namespace warpfold
