// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// TLS with keys that can be replaced while the server serves: gRPC asks for them at each handshake.
#pragma once

#include <grpc/grpc_security.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/version_info.h>

#include <mutex>
#include <string>

#include "server/files/tls_keys.h"

namespace warpfold::server {

class TlsCredentials : public grpc::ServerCredentials {
 public:
  // Whether clients must show certificates is decided here, once for all keys.
  explicit TlsCredentials(TlsKeys keys);

  // New connections use these keys from now on; existing ones go on. From any thread.
  void Use(TlsKeys keys);

  // Does nothing: callers are identified only by their certificates, and not by metadata.
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  // Makes credentials of gRPC's core. They hold `self` and use it once they get a port.
  static grpc_server_credentials* Make(const TlsKeys& keys, TlsCredentials* self);
#if GRPC_CPP_VERSION_MINOR < 64
  int AddPortToServer(const std::string& address, grpc_server* server) override;
#endif
  static grpc_ssl_certificate_config_reload_status Fetch(void* self,
                                                         grpc_ssl_server_certificate_config** config);

  std::mutex mutex_;
  TlsKeys keys_;        // guarded by mutex_
  bool is_new_ = true;  // guarded by mutex_; gRPC has not got keys_ yet
};

}  // namespace warpfold::server
