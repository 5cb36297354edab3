// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The client library's classes as Python sees them: warpfold/_native.pyi describes them.
#pragma once

#include <nanobind/nanobind.h>

namespace warpfold::python {

void BindClient(nanobind::module_& module);

}  // namespace warpfold::python
