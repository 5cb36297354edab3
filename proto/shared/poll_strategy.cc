// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "proto/shared/poll_strategy.h"

#include <cstdlib>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace warpfold {

// gRPC takes the first strategy of the list that it knows.
bool IsPollStrategyChosen() {
  const char* const value = std::getenv(kPollStrategyVariable);
  if (value == nullptr) return false;
  for (const absl::string_view name : absl::StrSplit(value, ',')) {
    if (name == "none") return false;
    if (name == "poll" || name == "epoll1" || name == "all") return true;
  }
  return false;
}

}  // namespace warpfold
