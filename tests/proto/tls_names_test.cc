// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "proto/shared/tls_names.h"

#include <gtest/gtest.h>
#include <openssl/asn1.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

namespace warpfold {
namespace {

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
using Connection = std::unique_ptr<SSL, decltype(&SSL_free)>;

// A certificate that signs itself.
class Certified {
 public:
  Certified() : key_(EVP_EC_gen("P-256"), EVP_PKEY_free), certificate_(X509_new(), X509_free) {
    X509_set_version(certificate_.get(), X509_VERSION_3);
    X509_gmtime_adj(X509_getm_notBefore(certificate_.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate_.get()), 3600);
    X509_set_pubkey(certificate_.get(), key_.get());
    Sign();
  }

  // `type` is one of ASN.1's (V_ASN1_...), with these bytes.
  Certified& CommonName(int type, const std::string& bytes) {
    X509_NAME* const subject = X509_get_subject_name(certificate_.get());
    const auto* const data = reinterpret_cast<const unsigned char*>(bytes.data());
    EXPECT_EQ(X509_NAME_add_entry_by_NID(subject, NID_commonName, type, data, static_cast<int>(bytes.size()),
                                         -1, 0),
              1);
    X509_set_issuer_name(certificate_.get(), subject);
    return Sign();
  }
  // In OpenSSL's syntax: "DNS:a,IP:1.2.3.4", or "DER:" and digits.
  Certified& AlternativeNames(const std::string& names) {
    X509_EXTENSION* const extension =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names.c_str());
    EXPECT_NE(extension, nullptr) << names;
    X509_add_ext(certificate_.get(), extension, -1);
    X509_EXTENSION_free(extension);
    return Sign();
  }

  X509* certificate() const { return certificate_.get(); }
  EVP_PKEY* key() const { return key_.get(); }

 private:
  Certified& Sign() {
    EXPECT_GT(X509_sign(certificate_.get(), key_.get(), EVP_sha256()), 0);
    return *this;
  }

  Key key_;
  Certificate certificate_;
};

constexpr char kOddAddress[] = "DER:30:0a:87:08:01:02:03:04:05:06:07:08";  // eight bytes
constexpr char kNoAddress[] = "DER:30:02:87:00";

// Whether a client that trusts the certificate comes to a connection with a server that shows it, in memory.
bool CanShakeHands(const Certified& server_keys) {
  const Context server_context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  const Context client_context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  EXPECT_EQ(SSL_CTX_use_certificate(server_context.get(), server_keys.certificate()), 1);
  EXPECT_EQ(SSL_CTX_use_PrivateKey(server_context.get(), server_keys.key()), 1);
  X509_STORE_add_cert(SSL_CTX_get_cert_store(client_context.get()), server_keys.certificate());
  SSL_CTX_set_verify(client_context.get(), SSL_VERIFY_PEER, nullptr);  // as gRPC does
  const Connection server(SSL_new(server_context.get()), SSL_free);
  const Connection client(SSL_new(client_context.get()), SSL_free);
  BIO* servers_end = nullptr;
  BIO* clients_end = nullptr;
  EXPECT_EQ(BIO_new_bio_pair(&servers_end, 0, &clients_end, 0), 1);
  SSL_set_bio(server.get(), servers_end, servers_end);
  SSL_set_bio(client.get(), clients_end, clients_end);
  SSL_set_accept_state(server.get());
  SSL_set_connect_state(client.get());
  for (int round = 0; round < 100; ++round) {
    SSL_do_handshake(client.get());
    SSL_do_handshake(server.get());
  }
  return SSL_is_init_finished(client.get()) == 1 && SSL_is_init_finished(server.get()) == 1;
}

TEST(TlsNamesTest, NamesOfAnyKindAreReadable) {
  EXPECT_TRUE(HasReadableNames(*Certified().certificate()));
  EXPECT_TRUE(
      HasReadableNames(*Certified().CommonName(V_ASN1_UTF8STRING, "gr\xc3\xbc\xc3\x9f").certificate()));
  EXPECT_TRUE(HasReadableNames(*Certified().CommonName(V_ASN1_PRINTABLESTRING, "server").certificate()));
  EXPECT_TRUE(
      HasReadableNames(*Certified().CommonName(V_ASN1_BMPSTRING, std::string("\0a", 2)).certificate()));
  Certified all;
  all.AlternativeNames(
      "DNS:*.example.com,IP:127.0.0.1,IP:::1,email:a@example.com,URI:spiffe://a/b,RID:1.2.3.4,"
      "otherName:1.2.3.4;UTF8:other");
  EXPECT_TRUE(HasReadableNames(*all.certificate()));
}

TEST(TlsNamesTest, NamesThatGrpcCannotRead) {
  EXPECT_FALSE(HasReadableNames(*Certified().CommonName(V_ASN1_BIT_STRING, "server").certificate()));
  EXPECT_FALSE(HasReadableNames(*Certified().AlternativeNames(kOddAddress).certificate()));
  EXPECT_FALSE(HasReadableNames(*Certified().AlternativeNames(kNoAddress).certificate()));
}

// gRPC reads the first common name only.
TEST(TlsNamesTest, TheFirstCommonNameCounts) {
  Certified first_is_text;
  first_is_text.CommonName(V_ASN1_UTF8STRING, "server").CommonName(V_ASN1_BIT_STRING, "server");
  EXPECT_TRUE(HasReadableNames(*first_is_text.certificate()));
  Certified second_is_text;
  second_is_text.CommonName(V_ASN1_BIT_STRING, "server").CommonName(V_ASN1_UTF8STRING, "server");
  EXPECT_FALSE(HasReadableNames(*second_is_text.certificate()));
}

// Another process does so, since it would be for all tests of this one.
TEST(TlsNamesTest, HandshakesFailOnlyBecauseOfThese) {
  Certified good;
  good.CommonName(V_ASN1_UTF8STRING, "server").AlternativeNames("IP:127.0.0.1");
  Certified odd;
  odd.CommonName(V_ASN1_UTF8STRING, "server").AlternativeNames(kOddAddress);
  EXPECT_TRUE(CanShakeHands(good));
  EXPECT_TRUE(CanShakeHands(odd));
  const auto reject = [&] {
    RejectUnreadableNames();
    std::_Exit(CanShakeHands(good) && !CanShakeHands(odd) ? 0 : 1);
  };
  EXPECT_EXIT(reject(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace warpfold
