// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/admission/methods.h"

#include <algorithm>
#include <array>
#include <utility>

namespace warpfold::server {
namespace {

constexpr std::array<std::pair<absl::string_view, Method>, 13> kMethods = {{
    {"/warpfold.v1.ReductionService/Reduce", Method::kReduce},
    {"/warpfold.v1.ReductionService/ReduceArray", Method::kReduceArray},
    {"/warpfold.v1.SegmentService/ReduceSegments", Method::kReduceSegments},
    {"/warpfold.v1.ArrayService/PutArray", Method::kPutArray},
    {"/warpfold.v1.ArrayService/GetArray", Method::kGetArray},
    {"/warpfold.v1.ArrayService/ListArrays", Method::kListArrays},
    {"/warpfold.v1.ArrayService/DeleteArray", Method::kDeleteArray},
    {"/warpfold.v1.ReductionService/Merge", Method::kMerge},
    {"/warpfold.v1.ReductionService/GetServerInfo", Method::kGetServerInfo},
    {"/grpc.health.v1.Health/Check", Method::kHealthCheck},
    {"/grpc.health.v1.Health/Watch", Method::kHealthWatch},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Method::kReflection},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Method::kReflection},
}};

absl::string_view LastPart(absl::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

Method MethodOf(absl::string_view path) {
  for (const auto& [known, method] : kMethods) {
    if (path == known) return method;
  }
  return Method::kUnknown;
}

Method MethodNamed(absl::string_view name) {
  for (const auto& [known, method] : kMethods) {
    if (name == LastPart(known)) return method;
  }
  return Method::kUnknown;
}

absl::string_view NameOf(Method method) {
  for (const auto& [known, listed] : kMethods) {
    if (method == listed) return LastPart(known);
  }
  return "";
}

std::vector<std::string> AllMethodNames() {
  std::vector<std::string> names;
  for (const auto& [path, method] : kMethods) {
    std::string name(LastPart(path));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace warpfold::server
