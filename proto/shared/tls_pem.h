// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks the PEM texts of TLS before a connection is tried with them, for the server and for `warpfold`: gRPC
// does not report what it cannot use, so that each side would only see connections that break. Errors are
// INVALID_ARGUMENT and say what is wrong with the file; whose it is, the caller knows.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace warpfold {

// Certificates of authorities.
absl::Status CheckAuthorities(const std::string& pem);

// A chain of certificates, the owner's own first, that TLS takes. Dates are not asked for.
absl::Status CheckCertificates(const std::string& pem);

// The key, unencrypted, of the first of these certificates, which CheckCertificates has passed. A handshake
// comes about with both: for some types of keys, as those of the curve secp256k1, TLS has no signature.
absl::Status CheckKey(const std::string& pem, const std::string& certificates);

// When a certificate begins to be valid, and when it expires.
struct Validity {
  absl::Time from = absl::InfinitePast();
  absl::Time until = absl::InfiniteFuture();
};

// The validities of all certificates of a PEM text that CheckCertificates or CheckAuthorities has passed, in
// their order.
std::vector<Validity> ValiditiesOf(const std::string& certificates);

}  // namespace warpfold
