// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/status_translation.h"

#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"
#include "google/rpc/status.pb.h"
#include "kernels/error.h"

namespace warpfold::server {
namespace {

// When a call should be made again. Generic retry layers read this, and not our metadata.
void AddRetryInfo(const google::rpc::ErrorInfo& info, google::rpc::Status& details) {
  const auto retry_ms = info.metadata().find("retry_ms");
  std::int64_t ms = 0;
  if (retry_ms == info.metadata().end() || !absl::SimpleAtoi(retry_ms->second, &ms)) return;
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(ms / 1000);
  retry.mutable_retry_delay()->set_nanos(static_cast<std::int32_t>(ms % 1000 * 1'000'000));
  static_cast<void>(details.add_details()->PackFrom(retry));  // it fails for messages of 2 GiB
}

}  // namespace

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
    static_cast<void>(details.add_details()->PackFrom(info));
    AddRetryInfo(info, details);
  }
  // The numbers of the codes are the same by design.
  return {static_cast<grpc::StatusCode>(status.code()), message, details.SerializeAsString()};
}

}  // namespace warpfold::server
