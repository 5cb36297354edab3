// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Statuses as Python exceptions.
#pragma once

#include <nanobind/nanobind.h>

#include "absl/status/status.h"

namespace warpfold::python {

// (code's name, message, reason, fields), from which warpfold.errors makes an exception.
nanobind::tuple ErrorParts(const absl::Status& status);

// Raises that exception.
[[noreturn]] void Raise(const absl::Status& status);

}  // namespace warpfold::python
