// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads the files that the TLS flags name, and checks them (proto/shared/tls_pem.h) before the server uses
// them.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/flags.h"

namespace warpfold::server {

// PEM texts. With `client_ca`, whatever its text, clients must show a certificate that it signed.
struct TlsKeys {
  std::string certificate;
  std::string key;
  std::optional<std::string> client_ca = std::nullopt;
};

// The keys that the flags name; nothing without them. INVALID_ARGUMENT with the flag and what is wrong with
// its file.
absl::StatusOr<std::optional<TlsKeys>> ReadTlsKeys(const Flags& flags);

// The certificate that expires first of the server's own chain: many peers reject a chain with an expired
// intermediate certificate as well.
struct CertificateExpiry {
  absl::Time time;
  absl::string_view name;  // "the certificate", or another one
};
CertificateExpiry OwnExpiry(const TlsKeys& keys);
// When the last of the authorities' certificates expires, and with it every client's; none without them.
std::optional<absl::Time> AuthoritiesExpiry(const TlsKeys& keys);

// Says, with the flag and the date, that peers would reject the server's own certificate at `now`, because
// it, or another one in its chain, is not yet valid or no longer valid. Empty if they are valid.
std::string FaultOfOwnDates(const TlsKeys& keys, absl::Time now);
// Says likewise that all clients would be rejected at `now`, because none of the authorities' certificates is
// valid.
std::string FaultOfAuthorities(const TlsKeys& keys, absl::Time now);

// The format for dates of certificates.
std::string UtcDateOf(absl::Time time);

}  // namespace warpfold::server
