// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/watched_tls.h"

#include <openssl/crypto.h>
#include <openssl/ssl.h>

#include <cstddef>
#include <span>

#include "server/net/watched_connection.h"
#include "server/net/watched_sockets.h"

namespace warpfold::server {
namespace {

// gRPC's TLS reads and writes memory, not the socket, and so cannot tell whose it is: the thread knows, when
// it is made.
thread_local const std::shared_ptr<WatchedConnection>* handed_over = nullptr;

using Connection = std::shared_ptr<WatchedConnection>;

// OpenSSL calls these when an SSL is made and when it is freed.
void Attach(void* /*ssl*/, void* /*data*/, CRYPTO_EX_DATA* all, int index, long /*unused*/,
            void* /*unused*/) {
  if (handed_over != nullptr && *handed_over != nullptr) {
    CRYPTO_set_ex_data(all, index, new Connection(*handed_over));
  }
}

void Detach(void* /*ssl*/, void* data, CRYPTO_EX_DATA* /*all*/, int /*index*/, long /*unused*/,
            void* /*unused*/) {
  delete static_cast<Connection*>(data);
}

int Index() {
  static const int index = SSL_get_ex_new_index(0, nullptr, &Attach, nullptr, &Detach);
  return index;
}

// Null where `ssl` is not that of a connection which was handed over.
WatchedConnection* ConnectionOf(const SSL* ssl) {
  const auto* const connection = static_cast<const Connection*>(SSL_get_ex_data(ssl, Index()));
  return connection == nullptr ? nullptr : connection->get();
}

std::span<const std::byte> Bytes(const void* data, std::size_t size) {
  return {static_cast<const std::byte*>(data), size};
}

}  // namespace

TlsHandOver::TlsHandOver(int descriptor) : connection_(WatchEncryptedSocket(descriptor)) {
  Index();
  handed_over = &connection_;
}

TlsHandOver::~TlsHandOver() { handed_over = nullptr; }

}  // namespace warpfold::server

// A server that is linked statically has OpenSSL's functions of these names beside these, to which the linker
// leads gRPC.
#ifdef WARPFOLD_STATIC_OPENSSL
#define WARPFOLD_REPLACES(name) "__wrap_" name
#else
#define WARPFOLD_REPLACES(name) name
#endif

extern "C" int ReadDecrypted(SSL* ssl, void* data, int most) __asm__(WARPFOLD_REPLACES("SSL_read"));
extern "C" int WriteToEncrypt(SSL* ssl, const void* data, int bytes) __asm__(WARPFOLD_REPLACES("SSL_write"));

extern "C" int ReadDecrypted(SSL* ssl, void* data, int most) {
  using namespace warpfold::server;  // NOLINT(google-build-using-namespace): the body belongs to it
  std::size_t size = 0;
  if (most < 0 || SSL_read_ex(ssl, data, static_cast<std::size_t>(most), &size) != 1) return -1;
  WatchedConnection* const connection = ConnectionOf(ssl);
  const char* const complaint = connection == nullptr ? nullptr : connection->TakeReceived(Bytes(data, size));
  if (complaint == nullptr || !connection->IsStill()) return static_cast<int>(size);
  connection->Cut(complaint);
  return -1;
}

extern "C" int WriteToEncrypt(SSL* ssl, const void* data, int bytes) {
  using namespace warpfold::server;  // NOLINT(google-build-using-namespace): the body belongs to it
  WatchedConnection* const connection = ConnectionOf(ssl);
  if (connection != nullptr) connection->ServerSpeaks();
  std::size_t size = 0;
  if (bytes < 0 || SSL_write_ex(ssl, data, static_cast<std::size_t>(bytes), &size) != 1) return -1;
  if (connection != nullptr) connection->TakeSent(Bytes(data, size));
  return static_cast<int>(size);
}
