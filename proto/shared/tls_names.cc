// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "proto/shared/tls_names.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <memory>

namespace warpfold {
namespace {

bool IsReadable(const ASN1_STRING* text) {
  unsigned char* converted = nullptr;
  const int length = ASN1_STRING_to_UTF8(&converted, text);
  OPENSSL_free(converted);
  return length >= 0;
}

bool IsReadable(const GENERAL_NAME& name) {
  switch (name.type) {
    case GEN_DNS:
    case GEN_EMAIL:
    case GEN_URI:
      return IsReadable(name.d.ia5);
    case GEN_IPADD:
      return name.d.iPAddress->length == 4 || name.d.iPAddress->length == 16;
    default:
      return true;  // gRPC does not look into these
  }
}

bool HasReadableCommonName(const X509& certificate) {
  const X509_NAME* const subject = X509_get_subject_name(&certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  return at < 0 || IsReadable(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
}

int Verify(X509_STORE_CTX* chain, void* /*unused*/) {
  if (const int verified = X509_verify_cert(chain); verified != 1) return std::min(verified, 0);
  if (HasReadableNames(*X509_STORE_CTX_get0_cert(chain))) return 1;
  X509_STORE_CTX_set_error(chain, X509_V_ERR_CERT_REJECTED);
  return 0;
}

// OpenSSL calls this when a context is made.
void OnNewContext(void* context, void* /*data*/, CRYPTO_EX_DATA* /*all*/, int /*index*/,
                  long /*unused*/,  // NOLINT(google-runtime-int): its type
                  void* /*unused*/) {
  SSL_CTX_set_cert_verify_callback(static_cast<SSL_CTX*>(context), &Verify, nullptr);
}

}  // namespace

bool HasReadableNames(const X509& certificate) {
  ERR_set_mark();
  using Names = std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)>;
  const Names names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)),
      GENERAL_NAMES_free);
  bool are_readable = HasReadableCommonName(certificate);
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    are_readable = are_readable && IsReadable(*sk_GENERAL_NAME_value(names.get(), i));
  }
  ERR_pop_to_mark();  // what they have left, and no earlier error of the caller's
  return are_readable;
}

void RejectUnreadableNames() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, &OnNewContext, nullptr, nullptr);
  static_cast<void>(index);
}

}  // namespace warpfold
