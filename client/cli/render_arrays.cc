// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/cli/json.h"
#include "client/cli/render.h"

namespace warpfold::cli {
namespace {

using Json = nlohmann::ordered_json;

// Whole seconds: nobody needs more.
std::int64_t Seconds(absl::Duration duration) { return std::llround(absl::ToDoubleSeconds(duration)); }

Json JsonOf(const ResidentArray& array) {
  Json json;
  if (!array.token.empty()) json["token"] = absl::BytesToHexString(array.token);
  json["id"] = array.id;
  json["owner"] = array.owner;
  json["dtype"] = std::string(ElementTypeName(array.type));
  if (array.matrix_shape.has_value()) {
    json["matrix"] = {array.matrix_shape->rows, array.matrix_shape->columns};
  }
  json["element_count"] = array.element_count;
  json["byte_count"] = array.byte_count;
  json["age_seconds"] = Seconds(array.age);
  json["expires_in_seconds"] = Seconds(array.expires_in);
  return json;
}

// The server accepts only printable ASCII for an owner, but the peer may not be such a server.
std::string Dump(const Json& json) { return AsciiJson(json) + "\n"; }

std::string ShapeOf(const ResidentArray& array) {
  if (!array.matrix_shape.has_value()) return "";
  return absl::StrCat(" of ", array.matrix_shape->rows, "x", array.matrix_shape->columns);
}

}  // namespace

std::string ArrayText(const ResidentArray& array) {
  return absl::StrCat("token ", absl::BytesToHexString(array.token), "\nelements ", array.element_count,
                      ShapeOf(array), "\ndtype ", ElementTypeName(array.type), "\nexpires_in_seconds ",
                      Seconds(array.expires_in), "\n");
}

std::string ArrayJson(const ResidentArray& array) { return Dump(JsonOf(array)); }

std::string ArraysText(const std::vector<ResidentArray>& arrays) {
  std::string text;
  for (const ResidentArray& array : arrays) {
    absl::StrAppend(&text, "array ", array.id, " owner '", absl::CEscape(array.owner), "' ",
                    array.element_count, " ", ElementTypeName(array.type), ShapeOf(array), ", ",
                    array.byte_count, " bytes, ", Seconds(array.age), " s old, expires in ",
                    Seconds(array.expires_in), " s\n");
  }
  return text;
}

std::string ArraysJson(const std::vector<ResidentArray>& arrays) {
  Json json = {{"arrays", Json::array()}};
  for (const ResidentArray& array : arrays) json["arrays"].push_back(JsonOf(array));
  return Dump(json);
}

}  // namespace warpfold::cli
