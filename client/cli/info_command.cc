// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/commands.h"
#include "client/cli/deadline.h"
#include "client/cli/output.h"
#include "client/cli/render.h"
#include "client/client.h"
#include "proto/shared/steady_time.h"

namespace warpfold::cli {

int RunInfo(const Server& server, const InfoFlags& flags) {
  const DeadlineGuard guard(SteadyNow() + kShortTimeout);
  Client client(server.targets, {.credentials = server.credentials});
  const absl::StatusOr<v1::GetServerInfoResponse> info = client.GetServerInfo({.timeout = kShortTimeout});
  if (!info.ok()) return ReportCallError(info.status());
  return PrintAnswer(flags.json ? InfoJson(*info) : InfoText(*info));
}

int RunHealth(const Server& server) {
  const DeadlineGuard guard(SteadyNow() + kShortTimeout);
  Client client(server.targets, {.credentials = server.credentials});
  const absl::StatusOr<bool> serving = client.IsServing({.timeout = kShortTimeout});
  if (!serving.ok()) return ReportCallError(serving.status());
  const int printed = PrintAnswer(*serving ? "SERVING\n" : "NOT_SERVING\n");
  return *serving ? printed : kExitServerError;
}

}  // namespace warpfold::cli
