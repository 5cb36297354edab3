// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that the server reads by itself: warpfold/_native.pyi describes the classes.
#pragma once

#include <nanobind/nanobind.h>

namespace warpfold::python {

void BindMemory(nanobind::module_& module);

}  // namespace warpfold::python
