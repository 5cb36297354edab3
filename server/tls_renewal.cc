// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/tls_renewal.h"

#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/logging.h"

namespace warpfold::server {
namespace {

constexpr absl::Duration kLookInterval = absl::Seconds(1);

std::string DateOf(absl::Time time) { return absl::FormatTime(time, absl::UTCTimeZone()); }

}  // namespace

TlsRenewal::TlsRenewal(const Flags& flags) : flags_(flags), seen_(Signature()) {}

std::optional<TlsKeys> TlsRenewal::Look(absl::Time now) {
  if (flags_.tls_cert.empty() || now < next_look_) return std::nullopt;
  next_look_ = now + kLookInterval;
  // Before they are read: what changes meanwhile is seen at the next look.
  std::string signature = Signature();
  if (signature == seen_) return std::nullopt;
  seen_ = std::move(signature);
  absl::StatusOr<std::optional<TlsKeys>> keys = ReadTlsKeys(flags_);
  if (!keys.ok()) {
    Log(LogLevel::kWarning,
        absl::StrCat("new keys are refused, the old ones stay in use: ", keys.status().message()));
    return std::nullopt;
  }
  Log(LogLevel::kInfo, absl::StrCat("--tls_cert: a new certificate is in use, until ",
                                    DateOf(ExpiryOf((*keys)->certificate))));
  return *std::move(keys);
}

// What changes when a file is written, replaced, or reached by another link.
std::string TlsRenewal::Signature() const {
  std::string signature;
  for (const std::string& path : {flags_.tls_cert, flags_.tls_key, flags_.tls_client_ca}) {
    struct stat info = {};
    if (path.empty() || stat(path.c_str(), &info) != 0) info = {};
    absl::StrAppend(&signature, info.st_dev, " ", info.st_ino, " ", info.st_size, " ", info.st_mtim.tv_sec,
                    " ", info.st_mtim.tv_nsec, " ", info.st_ctim.tv_sec, " ", info.st_ctim.tv_nsec, "\n");
  }
  return signature;
}

void TlsRenewal::Used(const TlsKeys& keys) {
  constexpr absl::Duration kSoon = absl::Hours(24 * 7);
  const absl::Time expiry = ExpiryOf(keys.certificate);
  expiry_s_ = absl::ToUnixSeconds(expiry);
  const absl::Time now = absl::Now();
  if (expiry > now + kSoon) return;
  Log(LogLevel::kWarning, absl::StrCat("--tls_cert: the certificate ", expiry <= now ? "expired" : "expires",
                                       " on ", DateOf(expiry)));
}

}  // namespace warpfold::server
