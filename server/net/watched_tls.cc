// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/watched_tls.h"

#include <openssl/crypto.h>
#include <openssl/ssl.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "server/net/allowance.h"
#include "server/net/watched_connection.h"
#include "server/net/watched_sockets.h"

namespace warpfold::server {
namespace {

using Connection = std::shared_ptr<WatchedConnection>;

// A connection's TLS.
struct WatchedTls {
  Connection connection;
  Allowance key_updates{kMaxKeyUpdates, kKeyUpdatesPerSecond};
  Allowance small_records{kMaxSmallRecords, kSmallRecordsPerSecond};
  bool is_followed = false;         // the handshake is over
  const char* complaint = nullptr;  // about what came; then the connection has been closed
};

// gRPC's TLS reads and writes memory, not the socket, so an SSL object does not show whose it is: the thread
// that makes it knows.
thread_local const Connection* handed_over = nullptr;

// OpenSSL calls these when an SSL is made and when it is freed.
// NOLINTBEGIN(google-runtime-int): its types
void Attach(void* /*ssl*/, void* /*data*/, CRYPTO_EX_DATA* all, int index, long /*unused*/,
            void* /*unused*/) {
  if (handed_over != nullptr && *handed_over != nullptr) {
    CRYPTO_set_ex_data(all, index, new WatchedTls{.connection = *handed_over});
  }
}

void Detach(void* /*ssl*/, void* data, CRYPTO_EX_DATA* /*all*/, int /*index*/, long /*unused*/,
            void* /*unused*/) {
  delete static_cast<WatchedTls*>(data);
}
// NOLINTEND(google-runtime-int)

int Index() {
  static const int index = SSL_get_ex_new_index(0, nullptr, &Attach, nullptr, &Detach);
  return index;
}

// Null if `ssl` is not that of a connection which was handed over.
WatchedTls* WatchedOf(const SSL* ssl) { return static_cast<WatchedTls*>(SSL_get_ex_data(ssl, Index())); }

// OpenSSL calls this for the head of each record and for each message of TLS itself, which SSL_read does not
// report.
void TakeOfTls(int is_written, int /*version*/, int type, const void* data, std::size_t size, SSL* /*ssl*/,
               void* of_tls) {
  if (is_written != 0) return;
  auto& tls = *static_cast<WatchedTls*>(of_tls);
  if (type == SSL3_RT_HANDSHAKE) {  // new keys in TLS 1.3, another handshake in 1.2
    if (!tls.key_updates.Spend(1, std::chrono::steady_clock::now())) tls.complaint = "new keys without end";
  } else if (type == SSL3_RT_HEADER && size == SSL3_RT_HEADER_LENGTH) {
    const auto* const bytes = static_cast<const std::uint8_t*>(data);
    if ((bytes[3] << 8 | bytes[4]) > kSmallRecord) return;
    if (!tls.small_records.Spend(1, std::chrono::steady_clock::now())) {
      tls.complaint = "records of TLS that carry next to nothing";
    }
  }
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

// A server that is linked statically also has OpenSSL's functions with these names; the linker leads gRPC to
// these.
#ifdef WARPFOLD_STATIC_OPENSSL
#define WARPFOLD_OPENSSL_SYMBOL(name) "__wrap_" name
#else
#define WARPFOLD_OPENSSL_SYMBOL(name) name
#endif

extern "C" int ReadDecrypted(SSL* ssl, void* data, int most) __asm__(WARPFOLD_OPENSSL_SYMBOL("SSL_read"));
extern "C" int WriteToEncrypt(SSL* ssl, const void* data,
                              int bytes) __asm__(WARPFOLD_OPENSSL_SYMBOL("SSL_write"));

extern "C" int ReadDecrypted(SSL* ssl, void* data, int most) {
  using namespace warpfold::server;  // NOLINT(google-build-using-namespace): the body belongs to it
  WatchedTls* const tls = WatchedOf(ssl);
  if (tls != nullptr && !tls->is_followed) {
    SSL_set_msg_callback_arg(ssl, tls);
    SSL_set_msg_callback(ssl, &TakeOfTls);
    tls->is_followed = true;
  }
  std::size_t size = 0;
  const auto has_read = [&] {
    return most >= 0 && SSL_read_ex(ssl, data, static_cast<std::size_t>(most), &size) == 1;
  };
  const bool is_cut = tls != nullptr && tls->complaint != nullptr;
  bool reads = has_read();
  if (tls == nullptr) return reads ? static_cast<int>(size) : -1;
  if (reads && tls->complaint == nullptr) tls->complaint = tls->connection->TakeReceived(Bytes(data, size));
  if (tls->complaint == nullptr) return reads ? static_cast<int>(size) : -1;
  if (!is_cut) tls->connection->Cut(tls->complaint);
  // For gRPC it then looks as if nothing more had come on the connection, and it finds the end at the socket:
  // otherwise it would log a TLS error.
  while (reads) reads = has_read();
  return -1;
}

extern "C" int WriteToEncrypt(SSL* ssl, const void* data, int bytes) {
  using namespace warpfold::server;  // NOLINT(google-build-using-namespace): the body belongs to it
  const WatchedTls* const tls = WatchedOf(ssl);
  if (tls != nullptr) tls->connection->ServerSpeaks();
  std::size_t size = 0;
  if (bytes < 0 || SSL_write_ex(ssl, data, static_cast<std::size_t>(bytes), &size) != 1) return -1;
  if (tls != nullptr) tls->connection->TakeSent(Bytes(data, size));
  return static_cast<int>(size);
}
