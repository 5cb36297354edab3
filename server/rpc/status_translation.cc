// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
#include "server/rpc/status_translation.h"

#include <string>

#include "google/rpc/status.pb.h"
#include "kernels/error.h"

namespace warpfold::server {

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message(status.message());
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(message);
  if (const std::string reason = kernels::ErrorReason(status); !reason.empty()) {
    google::rpc::ErrorInfo info;
    info.set_reason(reason);
    info.set_domain("warpfold");
    for (const auto& [key, value] : kernels::ErrorDetails(status)) (*info.mutable_metadata())[key] = value;
    details.add_details()->PackFrom(info);
  }
  // The numbers of the codes are the same by design.
  return {static_cast<grpc::StatusCode>(status.code()), message, details.SerializeAsString()};
}

}  // namespace warpfold::server
