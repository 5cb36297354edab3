// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/error.h"

#include "absl/strings/cord.h"
#include "absl/strings/match.h"

namespace warpfold::kernels {
namespace {

constexpr char kReasonUrl[] = "warpfold/reason";
constexpr char kMetadataPrefix[] = "warpfold/metadata/";

}  // namespace

absl::Status Error(absl::StatusCode code, absl::string_view reason, absl::string_view message,
                   const ErrorMetadata& metadata) {
  absl::Status status(code, message);
  status.SetPayload(kReasonUrl, absl::Cord(reason));
  for (const auto& [key, value] : metadata) {
    status.SetPayload(std::string(kMetadataPrefix) + key, absl::Cord(value));
  }
  return status;
}

std::string ErrorReason(const absl::Status& status) {
  const auto reason = status.GetPayload(kReasonUrl);
  return reason.has_value() ? std::string(*reason) : "";
}

ErrorMetadata ErrorDetails(const absl::Status& status) {
  ErrorMetadata metadata;
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& value) {
    if (!absl::StartsWith(url, kMetadataPrefix)) return;
    url.remove_prefix(sizeof kMetadataPrefix - 1);
    metadata.emplace_back(url, value);
  });
  return metadata;
}

}  // namespace warpfold::kernels
