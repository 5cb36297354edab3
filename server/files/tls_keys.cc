// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/files/tls_keys.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/shared/tls_pem.h"
#include "server/process/process.h"

namespace warpfold::server {
namespace {

absl::Status Of(absl::string_view flag, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(flag, ": ", status.message()));
}

absl::StatusOr<std::string> Read(absl::string_view flag, const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path);
  if (text.ok()) return text;
  return Of(flag,
            absl::InvalidArgumentError(absl::StrCat("the file cannot be read: ", text.status().message())));
}

// The name of a certificate in the server's chain, by its position there.
absl::string_view NameOf(std::ptrdiff_t place) {
  return place == 0 ? "the certificate" : "another certificate of the chain";
}

}  // namespace

absl::StatusOr<std::optional<TlsKeys>> ReadTlsKeys(const Flags& flags) {
  if (flags.tls_cert.empty()) return std::nullopt;
  absl::StatusOr<std::string> certificate = Read("--tls_cert", flags.tls_cert);
  if (!certificate.ok()) return certificate.status();
  absl::StatusOr<std::string> key = Read("--tls_key", flags.tls_key);
  if (!key.ok()) return key.status();
  TlsKeys keys = {.certificate = *std::move(certificate), .key = *std::move(key)};
  absl::Status status = CheckCertificates(keys.certificate);
  if (!status.ok()) return Of("--tls_cert", status);
  status = CheckKey(keys.key, keys.certificate);
  if (!status.ok()) return Of("--tls_key", status);
  if (flags.tls_client_ca.empty()) return keys;
  absl::StatusOr<std::string> client_ca = Read("--tls_client_ca", flags.tls_client_ca);
  if (!client_ca.ok()) return client_ca.status();
  status = CheckAuthorities(*client_ca);
  if (!status.ok()) return Of("--tls_client_ca", status);
  keys.client_ca = *std::move(client_ca);
  return keys;
}

std::string UtcDateOf(absl::Time time) { return absl::FormatTime(time, absl::UTCTimeZone()); }

CertificateExpiry OwnExpiry(const TlsKeys& keys) {
  const std::vector<Validity> chain = ValiditiesOf(keys.certificate);
  const auto first = std::min_element(chain.begin(), chain.end(),
                                      [](const Validity& a, const Validity& b) { return a.until < b.until; });
  return {.time = first->until, .name = NameOf(first - chain.begin())};
}

std::optional<absl::Time> AuthoritiesExpiry(const TlsKeys& keys) {
  if (!keys.client_ca.has_value()) return std::nullopt;
  absl::Time last = absl::InfinitePast();
  for (const Validity& authority : ValiditiesOf(*keys.client_ca)) last = std::max(last, authority.until);
  return last;
}

std::string FaultOfOwnDates(const TlsKeys& keys, absl::Time now) {
  const std::vector<Validity> chain = ValiditiesOf(keys.certificate);
  const auto last = std::max_element(chain.begin(), chain.end(),
                                     [](const Validity& a, const Validity& b) { return a.from < b.from; });
  if (now < last->from) {
    return absl::StrCat("--tls_cert: ", NameOf(last - chain.begin()), " is not valid before ",
                        UtcDateOf(last->from));
  }
  const CertificateExpiry expiry = OwnExpiry(keys);
  if (now < expiry.time) return "";
  return absl::StrCat("--tls_cert: ", expiry.name, " expired on ", UtcDateOf(expiry.time));
}

std::string FaultOfAuthorities(const TlsKeys& keys, absl::Time now) {
  if (!keys.client_ca.has_value()) return "";
  absl::Time first = absl::InfiniteFuture();
  for (const Validity& authority : ValiditiesOf(*keys.client_ca)) {
    if (now >= authority.from && now < authority.until) return "";
    if (now < authority.from) first = std::min(first, authority.from);
  }
  return first < absl::InfiniteFuture()
             ? absl::StrCat("--tls_client_ca: no certificate is valid before ", UtcDateOf(first))
             : absl::StrCat("--tls_client_ca: the last certificate expired on ",
                            UtcDateOf(*AuthoritiesExpiry(keys)));
}

}  // namespace warpfold::server
