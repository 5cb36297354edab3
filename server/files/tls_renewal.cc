// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/files/tls_renewal.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/shared/tls_pem.h"
#include "server/log/logging.h"

namespace warpfold::server {
namespace {

// Keys that are fit to be used. Expired ones are not, even if those in use have expired as well, since they
// would be no better. But a file that has not changed does not prevent another one from being used.
absl::StatusOr<TlsKeys> ReadNewKeys(const Flags& flags, const TlsKeys& in_use) {
  absl::StatusOr<std::optional<TlsKeys>> keys = ReadTlsKeys(flags);
  if (!keys.ok()) return keys.status();
  // This uses the time of day, as peers do: the server's clock keeps to what the time of day was at its
  // start.
  const absl::Time now = absl::Now();
  std::string fault;
  if ((*keys)->certificate != in_use.certificate) fault = FaultOfOwnDates(**keys, now);
  if (fault.empty() && (*keys)->client_ca != in_use.client_ca) fault = FaultOfAuthorities(**keys, now);
  if (!fault.empty()) return absl::InvalidArgumentError(fault);
  return **std::move(keys);
}

}  // namespace

TlsRenewal::TlsRenewal(const Flags& flags)
    : flags_(flags), files_({flags.tls_cert, flags.tls_key, flags.tls_client_ca}) {}

std::optional<TlsKeys> TlsRenewal::ReadIfChanged(absl::Time now) {
  if (flags_.tls_cert.empty() || !files_.HasChanged(now)) return std::nullopt;
  absl::StatusOr<TlsKeys> keys = ReadNewKeys(flags_, in_use_);
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
  const bool has_new_authorities = keys->client_ca != in_use_.client_ca;
  if (has_new_authorities) {
    Log(LogLevel::kInfo, "--tls_client_ca: new authorities are in use, for connections from now on");
  }
  if (!has_new_authorities || keys->certificate != in_use_.certificate) {
    Log(LogLevel::kInfo,
        absl::StrCat("--tls_cert: a new certificate is in use, until ", UtcDateOf(OwnExpiry(*keys).time)));
  }
  return *std::move(keys);
}

void TlsRenewal::Used(const TlsKeys& keys) {
  const CertificateExpiry expiry = OwnExpiry(keys);
  const std::optional<absl::Time> authorities_expiry = AuthoritiesExpiry(keys);
  expiry_s_ = absl::ToUnixSeconds(expiry.time);
  authorities_expiry_s_ = authorities_expiry.has_value() ? absl::ToUnixSeconds(*authorities_expiry) : kNone;
  reloads_.Succeeded();
  const absl::Time now = absl::Now();
  in_use_ = {.certificate = keys.certificate, .key = "", .client_ca = keys.client_ca};
  own_notice_.Watch(expiry.time, absl::StrCat("--tls_cert: ", expiry.name));
  authorities_notice_.Watch(authorities_expiry, "--tls_client_ca: the last certificate");
  const auto warn = [now](const std::string& fault, ExpiryNotice& notice) {
    const std::string due = notice.Due(now, UtcDateOf);  // the fault, if there is one, says this, too
    const std::string& warning = fault.empty() ? due : fault;
    if (!warning.empty()) Log(LogLevel::kWarning, warning);
  };
  warn(FaultOfOwnDates(keys, now), own_notice_);
  warn(FaultOfAuthorities(keys, now), authorities_notice_);
}

void TlsRenewal::WarnOfExpiry() {
  for (ExpiryNotice* const notice : {&own_notice_, &authorities_notice_}) {
    const std::string due = notice->Due(absl::Now(), UtcDateOf);
    if (!due.empty()) Log(LogLevel::kWarning, due);
  }
}

}  // namespace warpfold::server
