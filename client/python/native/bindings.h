// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Each source of bindings adds one of these to the module; warpfold/_native.pyi describes what they add.
#pragma once

#include <nanobind/nanobind.h>

#include "client/client.h"

namespace warpfold::python {

// The client library's classes as Python sees them.
void BindClient(nanobind::module_& module);
// Memory that the server reads itself.
void BindMemory(nanobind::module_& module);

// The client's methods for arrays that the server keeps or reads itself, for segments, and for parts of an
// array.
void BindArrays(nanobind::class_<Client>& client);
void BindSegments(nanobind::class_<Client>& client);
void BindParts(nanobind::class_<Client>& client);

}  // namespace warpfold::python
