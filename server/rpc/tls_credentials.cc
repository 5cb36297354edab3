// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/tls_credentials.h"

#include <grpc/grpc.h>

#include <utility>

#include "proto/shared/tls_names.h"

namespace warpfold::server {

// From then on the base class has the core's credentials, adds the port and releases them.
#if GRPC_CPP_VERSION_MINOR >= 64
TlsCredentials::TlsCredentials(TlsKeys keys)
    : grpc::ServerCredentials(Make(keys, this)), keys_(std::move(keys)) {}
#else
TlsCredentials::TlsCredentials(TlsKeys keys) : keys_(std::move(keys)) {}

int TlsCredentials::AddPortToServer(const std::string& address, grpc_server* server) {
  grpc_server_credentials* const credentials = Make(keys_, this);
  const int port = grpc_server_add_http2_port(server, address.c_str(), credentials);
  grpc_server_credentials_release(credentials);
  return port;
}
#endif

void TlsCredentials::Use(TlsKeys keys) {
  const std::lock_guard lock(mutex_);
  keys_ = std::move(keys);
  is_new_ = true;
}

grpc_server_credentials* TlsCredentials::Make(const TlsKeys& keys, TlsCredentials* self) {
  RejectUnreadableNames();  // clients may have such names
  const auto asks = keys.client_ca.has_value() ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                               : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
  return grpc_ssl_server_credentials_create_with_options(
      grpc_ssl_server_credentials_create_options_using_config_fetcher(asks, &TlsCredentials::Fetch, self));
}

grpc_ssl_certificate_config_reload_status TlsCredentials::Fetch(void* self,
                                                                grpc_ssl_server_certificate_config** config) {
  auto& credentials = *static_cast<TlsCredentials*>(self);
  const std::lock_guard lock(credentials.mutex_);
  if (!std::exchange(credentials.is_new_, false)) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  const TlsKeys& keys = credentials.keys_;
  const grpc_ssl_pem_key_cert_pair pair = {.private_key = keys.key.c_str(),
                                           .cert_chain = keys.certificate.c_str()};
  // gRPC requires an authority even if clients are not asked for certificates, and then does not use it.
  const std::string& client_ca = keys.client_ca.has_value() ? *keys.client_ca : keys.certificate;
  *config = grpc_ssl_server_certificate_config_create(client_ca.c_str(), &pair, 1);
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

}  // namespace warpfold::server
