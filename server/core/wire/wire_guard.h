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
#include <optional>

#include "absl/strings/string_view.h"

namespace warpfold::server {

// The maximum number of fields in a message and all its submessages together; a message with more is not
// passed to protobuf. This limit is for Merge, whose states have many fields; they count as cost when
// messages take turns (admission/turns.h).
inline constexpr std::size_t kMaxFields = std::size_t{1} << 18;
// The maximum for any other message; valid ones have fewer than a hundred. Protobuf takes 30 times as long
// for a byte of unknown fields as the server takes for one of an array, and keeps 64 bytes for each such
// field.
inline constexpr std::size_t kMaxStreamFields = 1024;

// How many fields `bytes`, a serialized message of type `type`, contains, including known submessages; more
// than `limit` if there are more, and nothing if the bytes up to there are not a message. Looks at each byte
// at most as often as submessages are nested, and no further than the field that exceeds the limit.
std::optional<std::size_t> CountFields(absl::string_view bytes, const google::protobuf::Descriptor& type,
                                       std::size_t limit);

}  // namespace warpfold::server
