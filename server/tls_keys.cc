// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/tls_keys.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/process.h"

namespace warpfold::server {
namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

absl::Status Refusal(absl::string_view flag, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(flag, ": ", what));
}

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

// The text of the PEM file that a flag names. A text without any PEM block is refused here, because gRPC
// would not report it: the server would silently ask no client for a certificate.
absl::StatusOr<std::string> ReadPem(absl::string_view flag, const std::string& path, absl::string_view what) {
  absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return Refusal(flag, "the file cannot be read");
  if (!HasPemBlock(*text, what)) return Refusal(flag, absl::StrCat("the file holds no PEM block ", what));
  return text;
}

Bio ReaderOf(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free};
}

// All certificates of a PEM text, the server's own first.
absl::StatusOr<std::vector<Certificate>> ReadCertificates(absl::string_view flag, const std::string& text) {
  const Bio reader = ReaderOf(text);
  std::vector<Certificate> chain;
  while (X509* const certificate = PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr)) {
    chain.emplace_back(certificate, X509_free);
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!chain.empty() && at_end) return chain;
  return Refusal(flag, absl::StrCat("certificate ", chain.size() + 1, " of the file cannot be read"));
}

// Without it OpenSSL would ask for the passphrase at the terminal.
int NoPassphrase(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

absl::StatusOr<Key> ReadKey(const std::string& text, X509* certificate) {
  bool is_encrypted = false;
  const Bio reader = ReaderOf(text);
  Key key(PEM_read_bio_PrivateKey(reader.get(), nullptr, NoPassphrase, &is_encrypted), EVP_PKEY_free);
  const bool matches = key != nullptr && X509_check_private_key(certificate, key.get()) == 1;
  ERR_clear_error();
  if (is_encrypted) return Refusal("--tls_key", "the key is encrypted; give one without a passphrase");
  if (key == nullptr) return Refusal("--tls_key", "the key cannot be read");
  if (!matches) return Refusal("--tls_key", "the key is not that of the certificate of --tls_cert");
  return key;
}

std::string LastErrorOfOpenSsl() {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return reason == nullptr ? "OpenSSL does not take it" : reason;
}

// Whether OpenSSL, as this system has it set up, would serve with the keys: it may find them too weak. gRPC
// asks it at each handshake, and no client could connect.
absl::Status CheckUse(const std::vector<Certificate>& chain, EVP_PKEY* key) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_server_method()),
                                                                  SSL_CTX_free);
  if (context == nullptr) return absl::ResourceExhaustedError("--tls_cert: no memory for TLS");
  bool is_taken = SSL_CTX_use_certificate(context.get(), chain.front().get()) == 1;
  for (std::size_t i = 1; is_taken && i < chain.size(); ++i) {
    is_taken = SSL_CTX_add1_chain_cert(context.get(), chain[i].get()) == 1;
  }
  if (!is_taken) return Refusal("--tls_cert", LastErrorOfOpenSsl());
  if (SSL_CTX_use_PrivateKey(context.get(), key) != 1) return Refusal("--tls_key", LastErrorOfOpenSsl());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<TlsKeys>> ReadTlsKeys(const Flags& flags) {
  if (flags.tls_cert.empty()) return std::nullopt;
  absl::StatusOr<std::string> certificate = ReadPem("--tls_cert", flags.tls_cert, "CERTIFICATE");
  if (!certificate.ok()) return certificate.status();
  absl::StatusOr<std::string> key = ReadPem("--tls_key", flags.tls_key, "PRIVATE KEY");
  if (!key.ok()) return key.status();
  TlsKeys keys = {.certificate = *std::move(certificate), .key = *std::move(key)};
  const auto chain = ReadCertificates("--tls_cert", keys.certificate);
  if (!chain.ok()) return chain.status();
  const auto own_key = ReadKey(keys.key, chain->front().get());
  if (!own_key.ok()) return own_key.status();
  if (absl::Status status = CheckUse(*chain, own_key->get()); !status.ok()) return status;
  if (flags.tls_client_ca.empty()) return keys;
  absl::StatusOr<std::string> client_ca = ReadPem("--tls_client_ca", flags.tls_client_ca, "CERTIFICATE");
  if (!client_ca.ok()) return client_ca.status();
  if (const auto authorities = ReadCertificates("--tls_client_ca", *client_ca); !authorities.ok()) {
    return authorities.status();
  }
  keys.client_ca = *std::move(client_ca);
  return keys;
}

absl::Time ExpiryOf(const std::string& certificate) {
  const Bio reader = ReaderOf(certificate);
  const Certificate first(PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr), X509_free);
  std::tm time = {};
  if (first == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(first.get()), &time) != 1) {
    return absl::InfiniteFuture();
  }
  return absl::FromTM(time, absl::UTCTimeZone());
}

}  // namespace warpfold::server
