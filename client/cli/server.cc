// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/server.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/mapped_file.h"

namespace warpfold::cli {

namespace {

absl::StatusOr<std::string> ReadPem(const std::string& path) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  std::string text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  // An empty authority would be the system's, for gRPC.
  if (!absl::StrContains(text, "-----BEGIN ")) return absl::InvalidArgumentError("not a PEM file");
  return text;
}

}  // namespace

absl::StatusOr<Server> FindServer(const ServerFlags& flags) {
  if (flags.tls_ca.empty()) return Server{flags.targets.front(), nullptr, flags.targets};
  grpc::SslCredentialsOptions keys;
  for (const auto& [path, text] :
       {std::pair(&flags.tls_ca, &keys.pem_root_certs), std::pair(&flags.tls_cert, &keys.pem_cert_chain),
        std::pair(&flags.tls_key, &keys.pem_private_key)}) {
    if (path->empty()) continue;
    absl::StatusOr<std::string> pem = ReadPem(*path);
    if (!pem.ok()) {
      return absl::Status(pem.status().code(), absl::StrCat(*path, ": ", pem.status().message()));
    }
    *text = *std::move(pem);
  }
  return Server{flags.targets.front(), grpc::SslCredentials(keys), flags.targets};
}

}  // namespace warpfold::cli
