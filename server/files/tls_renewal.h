// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// New certificates for a server that runs: their files are read again when they change. Keys that could not
// be served with are refused, and those in use stay.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "server/files/file_watch.h"
#include "server/files/reload.h"
#include "server/files/tls_keys.h"
#include "server/flags.h"

namespace warpfold::server {

// Threads: one at a time, except for functions that say otherwise.
class TlsRenewal {
 public:
  // The keys in use are those that the files hold now. `flags` must outlive this.
  explicit TlsRenewal(const Flags& flags);

  // To be called often; looks at the files once a second. The keys to use from now on, if they are new ones
  // and good: valid now, too. Says in the log what was found.
  std::optional<TlsKeys> ReadIfChanged(absl::Time now);

  // These keys are in use from now on. Says in the log if they are not valid at this time, or their
  // certificate expires within a week: clients would refuse it and say so only to their own users. At the
  // start there are no others to serve with, so that this is no reason not to.
  void Used(const TlsKeys& keys);
  // When their certificate expires; none without keys. From any thread.
  std::optional<absl::Time> expiry() const {
    const std::int64_t expiry_s = expiry_s_;
    return expiry_s == kNone ? std::nullopt : std::optional(absl::FromUnixSeconds(expiry_s));
  }
  // What became of the files. From any thread.
  Reload last_reload() const { return reloads_.Last("keys"); }

 private:
  static constexpr std::int64_t kNone = -1;

  const Flags& flags_;
  FileWatch files_;
  ReloadRecord reloads_;
  TlsKeys in_use_;       // without the key itself
  std::string refusal_;  // of the last attempt; empty if there was none
  std::atomic<std::int64_t> expiry_s_ = kNone;
};

}  // namespace warpfold::server
