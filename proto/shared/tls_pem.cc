// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "proto/shared/tls_pem.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <ctime>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace warpfold {
namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;

// Whether a whole PEM block is in `text` whose label ends with `what`: EC PRIVATE KEY is a PRIVATE KEY.
bool HasPemBlock(absl::string_view text, absl::string_view what) {
  constexpr absl::string_view kBegin = "-----BEGIN ";
  constexpr absl::string_view kDashes = "-----";
  for (std::size_t at = 0; (at = text.find(kBegin, at)) != absl::string_view::npos;) {
    at += kBegin.size();
    const absl::string_view label = text.substr(at, text.find(kDashes, at) - at);
    if (!absl::EndsWith(label, what)) continue;
    if (absl::StrContains(text.substr(at), absl::StrCat("-----END ", label, kDashes))) return true;
  }
  return false;
}

// gRPC does not report a text without any PEM block: a server would silently ask no client for a certificate,
// and a client would take the system's authorities.
absl::Status CheckPemBlock(const std::string& text, absl::string_view what) {
  if (HasPemBlock(text, what)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the file holds no PEM block ", what));
}

Bio ReaderOf(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free};
}

// All certificates of a PEM text, the owner's own first.
absl::StatusOr<std::vector<Certificate>> ReadCertificates(const std::string& text) {
  if (absl::Status status = CheckPemBlock(text, "CERTIFICATE"); !status.ok()) return status;
  const Bio reader = ReaderOf(text);
  std::vector<Certificate> chain;
  while (X509* const certificate = PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr)) {
    chain.emplace_back(certificate, X509_free);
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!chain.empty() && at_end) return chain;
  return absl::InvalidArgumentError(
      absl::StrCat("certificate ", chain.size() + 1, " of the file cannot be read"));
}

// Without it OpenSSL would ask for the passphrase at the terminal.
int NoPassphrase(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

absl::StatusOr<Key> ReadKey(const std::string& text, X509* certificate) {
  if (absl::Status status = CheckPemBlock(text, "PRIVATE KEY"); !status.ok()) return status;
  bool is_encrypted = false;
  const Bio reader = ReaderOf(text);
  Key key(PEM_read_bio_PrivateKey(reader.get(), nullptr, NoPassphrase, &is_encrypted), EVP_PKEY_free);
  const bool matches = key != nullptr && X509_check_private_key(certificate, key.get()) == 1;
  ERR_clear_error();
  if (is_encrypted) {
    return absl::InvalidArgumentError("the key is encrypted; give one without a passphrase");
  }
  if (key == nullptr) return absl::InvalidArgumentError("the key cannot be read");
  if (!matches) return absl::InvalidArgumentError("the key is not that of the certificate of --tls_cert");
  return key;
}

absl::Status LastErrorOfOpenSsl() {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return absl::InvalidArgumentError(reason == nullptr ? "OpenSSL does not take it" : reason);
}

}  // namespace

absl::Status CheckAuthorities(const std::string& pem) { return ReadCertificates(pem).status(); }

// OpenSSL, as this system has it set up, may find certificate or key too weak. gRPC asks it at each
// handshake, and no connection would come about.
absl::Status CheckCertificates(const std::string& pem) {
  const auto chain = ReadCertificates(pem);
  if (!chain.ok()) return chain.status();
  const Context context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  if (context == nullptr) return absl::ResourceExhaustedError("no memory for TLS");
  bool is_taken = SSL_CTX_use_certificate(context.get(), chain->front().get()) == 1;
  for (std::size_t i = 1; is_taken && i < chain->size(); ++i) {
    is_taken = SSL_CTX_add1_chain_cert(context.get(), (*chain)[i].get()) == 1;
  }
  return is_taken ? absl::OkStatus() : LastErrorOfOpenSsl();
}

absl::Status CheckKey(const std::string& pem, const std::string& certificates) {
  const auto chain = ReadCertificates(certificates);
  if (!chain.ok()) return chain.status();
  const auto key = ReadKey(pem, chain->front().get());
  if (!key.ok()) return key.status();
  const Context context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  if (context == nullptr) return absl::ResourceExhaustedError("no memory for TLS");
  const bool is_taken = SSL_CTX_use_certificate(context.get(), chain->front().get()) == 1 &&
                        SSL_CTX_use_PrivateKey(context.get(), key->get()) == 1;
  return is_taken ? absl::OkStatus() : LastErrorOfOpenSsl();
}

absl::Time ExpiryOf(const std::string& certificates) {
  const Bio reader = ReaderOf(certificates);
  const Certificate first(PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr), X509_free);
  std::tm time = {};
  if (first == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(first.get()), &time) != 1) {
    return absl::InfiniteFuture();
  }
  return absl::FromTM(time, absl::UTCTimeZone());
}

}  // namespace warpfold
