// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
#include "server/call_log.h"

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"

namespace warpfold::server {

void LogCall(absl::string_view method, const absl::Status& status, std::uint64_t bytes, absl::Duration took,
             const std::string& request_id) {
  std::string line = absl::StrCat(method, " ", absl::StatusCodeToString(status.code()), " bytes=", bytes,
                                  " ms=", absl::ToDoubleMilliseconds(took));
  if (!request_id.empty()) absl::StrAppend(&line, " request_id=\"", request_id, "\"");
  if (const std::string reason = kernels::ErrorReason(status); !reason.empty()) {
    absl::StrAppend(&line, " reason=", reason);
  }
  if (!status.ok()) absl::StrAppend(&line, ": ", status.message());
  spdlog::info("{}", line);
}

}  // namespace warpfold::server
