// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What clients send in TLS itself. e2e_floods shows that frames over TLS are watched, and that gRPC reads
// through these functions.
#include "server/net/watched_tls.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "server/net/file_descriptor.h"
#include "server/net/watched_connection.h"

namespace warpfold::server {
namespace {

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Context = std::unique_ptr<SSL_CTX, Free<&SSL_CTX_free>>;
using Tls = std::unique_ptr<SSL, Free<&SSL_free>>;

// A server's and a client's TLS, connected in memory as gRPC's is. The server's belongs to a watched socket.
class WatchedTlsTest : public testing::Test {
 protected:
  WatchedTlsTest() {
    std::array<int, 2> sockets = {};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets.data()), 0);
    socket_ = FileDescriptor(sockets[0]);
    peer_ = FileDescriptor(sockets[1]);
    const std::unique_ptr<EVP_PKEY, Free<&EVP_PKEY_free>> key(EVP_EC_gen("P-256"));
    const std::unique_ptr<X509, Free<&X509_free>> certificate(X509_new());
    X509_set_pubkey(certificate.get(), key.get());
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 1000);
    EXPECT_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
    SSL_CTX_use_certificate(context_.get(), certificate.get());
    SSL_CTX_use_PrivateKey(context_.get(), key.get());
    {
      const TlsHandOver hand_over(socket_.get());
      server_.reset(SSL_new(context_.get()));
    }
    BIO* to_server = nullptr;
    BIO* to_client = nullptr;
    EXPECT_EQ(BIO_new_bio_pair(&to_server, kBioBytes, &to_client, kBioBytes), 1);
    SSL_set_bio(server_.get(), to_server, to_server);
    SSL_set_bio(client_.get(), to_client, to_client);
    SSL_set_accept_state(server_.get());
    SSL_set_connect_state(client_.get());
    for (int i = 0; i < 10; ++i) {
      SSL_do_handshake(client_.get());
      SSL_do_handshake(server_.get());
    }
    EXPECT_TRUE(SSL_is_init_finished(server_.get()) && SSL_is_init_finished(client_.get()));
  }

  // Reads once on the server's side. Returns how many bytes came, or nothing if none are there yet.
  std::optional<int> Read() {
    std::array<char, 16'384> bytes;
    const int size = SSL_read(server_.get(), bytes.data(), bytes.size());
    if (size > 0) return size;
    EXPECT_EQ(SSL_get_error(server_.get(), size), SSL_ERROR_WANT_READ);
    return std::nullopt;
  }
  void Write(const std::string& bytes) {
    EXPECT_EQ(SSL_write(client_.get(), bytes.data(), static_cast<int>(bytes.size())),
              static_cast<int>(bytes.size()));
  }
  void UpdateKey() {
    EXPECT_EQ(SSL_key_update(client_.get(), SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    EXPECT_EQ(SSL_do_handshake(client_.get()), 1);
  }
  // Whether the other end of the socket sees that it has ended.
  bool IsCut() const {
    char byte = 0;
    return recv(peer_.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }

  static constexpr std::size_t kBioBytes = 1 << 16;
  FileDescriptor socket_;
  FileDescriptor peer_;
  Context context_{SSL_CTX_new(TLS_method())};
  Tls server_;
  Tls client_{SSL_new(context_.get())};
};

TEST_F(WatchedTlsTest, KeysMayBeRenewedNowAndThen) {
  const std::uint64_t before = FloodsClosed();
  for (int i = 0; i < static_cast<int>(kMaxKeyUpdates); ++i) {
    UpdateKey();
    EXPECT_FALSE(Read().has_value());
  }
  EXPECT_FALSE(IsCut());
  EXPECT_EQ(FloodsClosed(), before);
  for (int i = 0; i < 10; ++i) {
    UpdateKey();
    EXPECT_FALSE(Read().has_value());
  }
  EXPECT_TRUE(IsCut());
  EXPECT_EQ(FloodsClosed(), before + 1);
  Write("what comes behind it");
  EXPECT_FALSE(Read().has_value()) << "is not passed on";
  EXPECT_EQ(FloodsClosed(), before + 1);
}

TEST_F(WatchedTlsTest, SmallRecordsMayNotBeAFlood) {
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  Write(preface);
  EXPECT_EQ(Read(), static_cast<int>(preface.size()));
  // A frame of an unknown kind: its content means nothing to the watch over frames.
  const std::string head("\xff\xff\xff\x40\0\0\0\0\1", 9);
  Write(head);
  EXPECT_EQ(Read(), 9);
  int passed = 0;
  while (passed < 3 * static_cast<int>(kMaxSmallRecords)) {
    Write("x");
    if (!Read().has_value()) break;
    ++passed;
  }
  EXPECT_GE(passed, static_cast<int>(kMaxSmallRecords) - 10);
  EXPECT_LT(passed, 3 * static_cast<int>(kMaxSmallRecords));
  EXPECT_TRUE(IsCut());
}

TEST_F(WatchedTlsTest, LargeRecordsPassWithoutEnd) {
  Write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  Read();
  const std::string head("\xff\xff\xff\x40\0\0\0\0\1", 9);
  Write(head);
  Read();
  for (int i = 0; i < 2 * static_cast<int>(kMaxSmallRecords); ++i) {
    Write(std::string(48, 'x'));
    ASSERT_EQ(Read(), 48) << i;
  }
  EXPECT_FALSE(IsCut());
}

// As with a client in the same process.
TEST_F(WatchedTlsTest, WhatWasNotHandedOverIsNotWatched) {
  const std::uint64_t before = FloodsClosed();
  std::swap(server_, client_);
  for (int i = 0; i < 100; ++i) {
    UpdateKey();
    EXPECT_FALSE(Read().has_value());
  }
  EXPECT_EQ(FloodsClosed(), before);
}

}  // namespace
}  // namespace warpfold::server
