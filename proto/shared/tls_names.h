// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Certificates whose names gRPC cannot read. gRPC 1.51 reads the names of its peer after the handshake, and
// of its own certificate at the start, and ends the process if it stops halfway. An authority that copies
// what it is asked to sign gives such a certificate to anybody.
#pragma once

#include <openssl/x509.h>

namespace warpfold {

// Whether gRPC can read the common name, if there is one, and the alternative names: texts must be
// convertible to UTF-8, and IP addresses must have 4 or 16 bytes.
bool HasReadableNames(const X509& certificate);

// From now on, every handshake of this process fails if the peer's own certificate has names that cannot be
// read. Call it before gRPC makes its first connection, on any thread. It replaces, in OpenSSL's contexts
// that are made later, the function that verifies a chain (SSL_CTX_set_cert_verify_callback), so it is for
// programs, and not for libraries.
void RejectUnreadableNames();

}  // namespace warpfold
