// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The methods of the service, and of the standard services beside it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace warpfold::server {

enum class Method : std::uint8_t {
  kReduce,
  kReduceArray,
  kReduceSegments,
  kPutArray,
  kGetArray,
  kListArrays,
  kDeleteArray,
  kMerge,
  kGetServerInfo,
  kHealthCheck,
  kHealthWatch,
  kReflection,
  kUnknown
};

// The method for a path as in HTTP/2, "/package.Service/Method".
Method MethodOf(absl::string_view path);

// The method that has this name in logs and allow lists, the last part of its path: "Reduce".
Method MethodNamed(absl::string_view name);

// That name of one of the methods; "" for kUnknown.
absl::string_view NameOf(Method method);

// All names, each once.
std::vector<std::string> AllMethodNames();

}  // namespace warpfold::server
