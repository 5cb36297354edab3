// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/server.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/mapped_file.h"
#include "proto/shared/tls_pem.h"

namespace warpfold::cli {

namespace {

absl::StatusOr<std::string> ReadPem(const std::string& path) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  return std::string(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
}

absl::Status Of(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

}  // namespace

absl::StatusOr<Server> FindServer(const ServerFlags& flags) {
  if (flags.tls_ca.empty()) return Server{flags.targets, nullptr};
  grpc::SslCredentialsOptions keys;
  for (const auto& [path, text] :
       {std::pair(&flags.tls_ca, &keys.pem_root_certs), std::pair(&flags.tls_cert, &keys.pem_cert_chain),
        std::pair(&flags.tls_key, &keys.pem_private_key)}) {
    if (path->empty()) continue;
    absl::StatusOr<std::string> pem = ReadPem(*path);
    if (!pem.ok()) return Of(*path, pem.status());
    *text = *std::move(pem);
  }
  absl::Status status = CheckAuthorities(keys.pem_root_certs);
  if (!status.ok()) return Of(flags.tls_ca, status);
  if (!flags.tls_cert.empty()) {
    status = CheckCertificates(keys.pem_cert_chain);
    if (!status.ok()) return Of(flags.tls_cert, status);
    status = CheckKey(keys.pem_private_key, keys.pem_cert_chain);
    if (!status.ok()) return Of(flags.tls_key, status);
  }
  return Server{flags.targets, grpc::SslCredentials(keys)};
}

}  // namespace warpfold::cli
