// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
#include "server/call_log.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "server/logging.h"

namespace warpfold::server {

void LogCall(const CallRecord& call) {
  const absl::Status& status = call.status;
  std::string line =
      absl::StrCat(call.method, " ", absl::StatusCodeToString(status.code()), " bytes=", call.bytes,
                   " ms=", absl::ToDoubleMilliseconds(call.took), " peer=", call.peer);
  if (!call.request_id.empty()) absl::StrAppend(&line, " request_id=\"", call.request_id, "\"");
  if (const std::string reason = kernels::ErrorReason(status); !reason.empty()) {
    absl::StrAppend(&line, " reason=", reason);
  }
  if (!status.ok()) absl::StrAppend(&line, ": ", status.message());
  // Probes that find all well are no news.
  const bool is_probe = call.method == "Check" || call.method == "GetServerInfo";
  Log(is_probe && status.ok() ? LogLevel::kDebug : LogLevel::kInfo, line);
}

}  // namespace warpfold::server
