// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/files/tls_renewal.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/shared/tls_pem.h"
#include "server/log/logging.h"

namespace warpfold::server {
namespace {

std::string UtcDateOf(absl::Time time) { return absl::FormatTime(time, absl::UTCTimeZone()); }

}  // namespace

TlsRenewal::TlsRenewal(const Flags& flags)
    : flags_(flags), files_({flags.tls_cert, flags.tls_key, flags.tls_client_ca}) {}

std::optional<TlsKeys> TlsRenewal::ReadIfChanged(absl::Time now) {
  if (flags_.tls_cert.empty() || !files_.HasChanged(now)) return std::nullopt;
  absl::StatusOr<std::optional<TlsKeys>> keys = ReadTlsKeys(flags_);
  if (!keys.ok()) {
    reloads_.Failed();
    files_.TryAgain();
    if (std::exchange(refusal_, std::string(keys.status().message())) != keys.status().message()) {
      Log(LogLevel::kWarning,
          absl::StrCat("new keys are refused, the old ones stay in use: ", keys.status().message()));
    }
    return std::nullopt;
  }
  refusal_.clear();
  Log(LogLevel::kInfo, absl::StrCat("--tls_cert: a new certificate is in use, until ",
                                    UtcDateOf(ExpiryOf((*keys)->certificate))));
  return *std::move(keys);
}

void TlsRenewal::Used(const TlsKeys& keys) {
  constexpr absl::Duration kSoon = absl::Hours(24 * 7);
  const absl::Time expiry = ExpiryOf(keys.certificate);
  expiry_s_ = absl::ToUnixSeconds(expiry);
  reloads_.Succeeded();
  const absl::Time now = absl::Now();
  if (expiry > now + kSoon) return;
  Log(LogLevel::kWarning, absl::StrCat("--tls_cert: the certificate ", expiry <= now ? "expired" : "expires",
                                       " on ", UtcDateOf(expiry)));
}

}  // namespace warpfold::server
