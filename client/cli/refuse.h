// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How the command line says that it cannot take an input.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace warpfold::cli {

inline absl::Status Refuse(absl::string_view why) { return absl::InvalidArgumentError(why); }

}  // namespace warpfold::cli
