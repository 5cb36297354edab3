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
#include "proto/shared/tls_names.h"

namespace warpfold {
namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
using Connection = std::unique_ptr<SSL, decltype(&SSL_free)>;

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

absl::Time TimeOf(const ASN1_TIME* time, absl::Time otherwise) {
  std::tm parts = {};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? absl::FromTM(parts, absl::UTCTimeZone()) : otherwise;
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

// "EC secp256k1", "RSA".
std::string TypeOf(const EVP_PKEY* key) {
  const char* const type = EVP_PKEY_get0_type_name(key);
  char curve[64] = "";
  EVP_PKEY_get_group_name(key, curve, sizeof(curve), nullptr);
  return absl::StrCat(type == nullptr ? "unknown" : type, curve[0] == '\0' ? "" : " ", curve);
}

// One side's part of a handshake. False once nothing more can come of it.
bool GoOn(SSL* side) {
  const int done = SSL_do_handshake(side);
  const int error = done == 1 ? SSL_ERROR_NONE : SSL_get_error(side, done);
  return error == SSL_ERROR_NONE || error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
}

// Whether a client that takes any certificate and a server with these keys come to a connection, in memory.
bool CanShakeHands(SSL_CTX* with_keys) {
  const Context trusting(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  if (trusting == nullptr) return false;
  const Connection server(SSL_new(with_keys), SSL_free);
  const Connection client(SSL_new(trusting.get()), SSL_free);
  BIO* servers_end = nullptr;
  BIO* clients_end = nullptr;
  if (server == nullptr || client == nullptr) return false;
  if (BIO_new_bio_pair(&servers_end, 0, &clients_end, 0) != 1) return false;
  SSL_set_bio(server.get(), servers_end, servers_end);
  SSL_set_bio(client.get(), clients_end, clients_end);
  SSL_set_accept_state(server.get());
  SSL_set_connect_state(client.get());
  // One certificate and a handful of messages, of which the pair takes 17 KiB at a time.
  constexpr int kMaxRounds = 100;
  for (int round = 0; round < kMaxRounds; ++round) {
    if (!GoOn(client.get()) || !GoOn(server.get())) return false;
    if (SSL_is_init_finished(client.get()) && SSL_is_init_finished(server.get())) return true;
  }
  return false;
}

}  // namespace

absl::Status CheckAuthorities(const std::string& pem) { return ReadCertificates(pem).status(); }

// OpenSSL, as this system has it set up, may find certificate or key too weak. gRPC asks it at each
// handshake, and no connection would come about.
absl::Status CheckCertificates(const std::string& pem) {
  const auto chain = ReadCertificates(pem);
  if (!chain.ok()) return chain.status();
  if (!HasReadableNames(*chain->front())) {
    return absl::InvalidArgumentError(
        "the certificate has a name that gRPC cannot read: a common name that is not text, or an IP address "
        "of another length than 4 or 16 bytes");
  }
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
  if (!is_taken) return LastErrorOfOpenSsl();
  ERR_clear_error();
  // gRPC's servers look at the name that a client asks for. Without that, OpenSSL would go back to TLS 1.2
  // for a key that 1.3 has no signature for, which gRPC's do not.
  SSL_CTX_set_tlsext_servername_callback(
      context.get(), +[](SSL*, int*, void*) { return SSL_TLSEXT_ERR_OK; });
  if (CanShakeHands(context.get())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("no handshake comes about with a key of the type ",
                                                 TypeOf(key->get()), ": ", LastErrorOfOpenSsl().message()));
}

std::vector<Validity> ValiditiesOf(const std::string& certificates) {
  std::vector<Validity> validities;
  const auto chain = ReadCertificates(certificates);
  if (!chain.ok()) return validities;
  for (const Certificate& certificate : *chain) {
    validities.push_back({.from = TimeOf(X509_get0_notBefore(certificate.get()), absl::InfinitePast()),
                          .until = TimeOf(X509_get0_notAfter(certificate.get()), absl::InfiniteFuture())});
  }
  return validities;
}

}  // namespace warpfold
