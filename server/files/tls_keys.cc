// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/files/tls_keys.h"

#include <algorithm>
#include <utility>

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

Validity OwnValidity(const TlsKeys& keys) {
  Validity all;
  for (const Validity& one : ValiditiesOf(keys.certificate)) {
    all = {.from = std::max(all.from, one.from), .until = std::min(all.until, one.until)};
  }
  return all;
}

std::optional<absl::Time> AuthoritiesExpiry(const TlsKeys& keys) {
  if (!keys.client_ca.has_value()) return std::nullopt;
  absl::Time last = absl::InfinitePast();
  for (const Validity& authority : ValiditiesOf(*keys.client_ca)) last = std::max(last, authority.until);
  return last;
}

std::string FaultOfOwnDates(const TlsKeys& keys, absl::Time now) {
  const Validity own = OwnValidity(keys);
  const bool is_early = now < own.from;
  if (!is_early && now < own.until) return "";
  const Validity leaf = ValiditiesOf(keys.certificate).front();
  const bool is_leaf = is_early ? now < leaf.from : now >= leaf.until;
  return absl::StrCat("--tls_cert: ", is_leaf ? "the certificate" : "another certificate of the chain",
                      is_early ? " is not valid before " : " expired on ",
                      UtcDateOf(is_early ? own.from : own.until));
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
