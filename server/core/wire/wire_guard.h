// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A look at a serialized message before protobuf makes objects of it: a message of 4 MiB may hold two million
// empty submessages, for which protobuf would take 185 MiB.
//
// Threads: pure functions.
#pragma once

#include <google/protobuf/descriptor.h>

#include <cstddef>

#include "absl/strings/string_view.h"

namespace warpfold::server {

// The maximum number of fields, of a message and all its submessages together, that is passed to protobuf.
// This is for a Merge, whose states have many fields, and which pays for them with its turns.
inline constexpr std::size_t kMaxFields = std::size_t{1} << 18;
// The same for any other message; no honest one has a hundred. Protobuf takes 30 times as long for a byte of
// unknown fields as the server takes for one of an array, and keeps 64 bytes for each such field.
inline constexpr std::size_t kMaxStreamFields = 1024;

// How many fields `bytes`, a serialized message of type `type`, contains, including known submessages; more
// than `limit` if there are more, or if the bytes are not a message at all. Looks at each byte at most as
// often as submessages are nested, and no further than the field that exceeds the limit.
std::size_t CountFields(absl::string_view bytes, const google::protobuf::Descriptor& type, std::size_t limit);

}  // namespace warpfold::server
