// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A line of the log as fields, and its two forms: a JSON object's members, and text for people.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"

namespace warpfold::server {

using LogValue = std::variant<std::string, std::vector<std::string>, std::uint64_t, double>;
// In the order in which they are shown. Names are of lower-case letters and underscores.
using LogFields = std::vector<std::pair<const char*, LogValue>>;

// "name":value, ... in ASCII, so that any text from a client is one JSON string.
std::string JsonMembers(const LogFields& fields);

// name=value ..., with quotes and escapes around anything that is not a plain word. "method" and "status" are
// written without their names, and "message" comes last, after a colon.
std::string PlainText(const LogFields& fields);

}  // namespace warpfold::server
