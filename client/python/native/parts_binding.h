// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The client's methods for parts of an array: warpfold/_native.pyi has them.
#pragma once

#include <nanobind/nanobind.h>

#include "client/client.h"

namespace warpfold::python {

void BindParts(nanobind::class_<Client>& client);

}  // namespace warpfold::python
