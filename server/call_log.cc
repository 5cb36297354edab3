// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
#include "server/call_log.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "server/logging.h"

namespace warpfold::server {

void CallLog::Add(const CallRecord& call) {
  const absl::Status& status = call.status;
  const std::string reason = kernels::ErrorReason(status);
  const std::string kind = reason.empty() ? absl::StatusCodeToString(status.code()) : reason;
  if (!status.ok() && !sampler_.Admit(kind, clock_())) return;
  std::string line =
      absl::StrCat(call.method, " ", absl::StatusCodeToString(status.code()), " bytes=", call.bytes,
                   " ms=", absl::ToDoubleMilliseconds(call.took), " peer=", call.peer);
  if (!call.request_id.empty()) absl::StrAppend(&line, " request_id=\"", call.request_id, "\"");
  if (!reason.empty()) absl::StrAppend(&line, " reason=", reason);
  if (!status.ok()) absl::StrAppend(&line, ": ", status.message());
  // Probes that find all well are no news.
  const bool is_probe = call.method == "Check" || call.method == "GetServerInfo";
  Log(is_probe && status.ok() ? LogLevel::kDebug : LogLevel::kInfo, line);
}

void CallLog::SayLeftOut(bool all) {
  for (const auto& [kind, calls] : sampler_.TakeLeftOut(all ? absl::InfiniteFuture() : clock_())) {
    Log(LogLevel::kInfo, absl::StrCat(calls, " more calls ended with ", kind));
  }
}

}  // namespace warpfold::server
