// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// New certificates for a running server: their files are read again when they change. Keys that the server
// could not use are rejected, and those in use stay.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "server/files/expiry_notice.h"
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

  // Call this often; it looks at the files once a second. Returns the keys to use from now on, if they are
  // new and good, which includes valid now. Logs what was found.
  std::optional<TlsKeys> ReadIfChanged(absl::Time now);

  // These keys are in use from now on. Logs a message if they are not valid at this time: clients would
  // reject them and say so only to their own users. At the start there are no other keys, so the server uses
  // them all the same.
  void Used(const TlsKeys& keys);
  // Call this often. Logs, once each, that the keys in use expire within a week, within a day, and that they
  // have expired.
  void WarnOfExpiry();
  // When peers will reject the certificate in use; none without keys. From any thread.
  std::optional<absl::Time> expiry() const { return TimeOf(expiry_s_); }
  // When all clients will be rejected, because the last authority's certificate has expired; none without
  // authorities. From any thread.
  std::optional<absl::Time> authorities_expiry() const { return TimeOf(authorities_expiry_s_); }
  // The outcome of the last reload. From any thread.
  Reload last_reload() const { return reloads_.Last("keys"); }

 private:
  static constexpr std::int64_t kNone = -1;
  static std::optional<absl::Time> TimeOf(std::int64_t seconds) {
    return seconds == kNone ? std::nullopt : std::optional(absl::FromUnixSeconds(seconds));
  }

  const Flags& flags_;
  FileWatch files_;
  ReloadRecord reloads_;
  TlsKeys in_use_;       // without the key itself
  std::string refusal_;  // of the last attempt; empty if there was none
  ExpiryNotice own_notice_;
  ExpiryNotice authorities_notice_;
  std::atomic<std::int64_t> expiry_s_ = kNone;
  std::atomic<std::int64_t> authorities_expiry_s_ = kNone;
};

}  // namespace warpfold::server
