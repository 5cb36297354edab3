// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The order of messages on a stream that carries an array, or says where one lies. The table is the
// specification: its test covers every state and message.
#pragma once

#include <array>
#include <cstdint>

namespace warpfold::server {

enum class StreamState : std::uint8_t {
  kStart,      // nothing has come
  kArray,      // the header has come; chunks follow
  kElsewhere,  // the header has come, and says where the array lies
  kCommitted,  // the commit has come
  kDone,       // a result or an error has been answered
};
inline constexpr int kStreamStates = 5;

// What comes next. kEnd is the client's half-close. kReference is a header that says where the array lies.
// kLengths is a message that says how the array is split into segments; other streams have none.
enum class MessageKind : std::uint8_t { kHeader, kReference, kChunk, kLengths, kCommit, kEnd };
inline constexpr int kMessageKinds = 6;

enum class Action : std::uint8_t {
  kBegin,        // check the header, make the reduction
  kTake,         // count and reduce the chunk's bytes
  kTakeLengths,  // split the elements that follow with them
  kCompare,      // compare the commit with what arrived
  kAnswer,       // send the result
  kBadOrder,     // INVALID_ARGUMENT (BAD_ORDER)
  kTruncated,    // DATA_LOSS (NO_COMMIT)
  kNone,         // do nothing more
};

struct Transition {
  StreamState next;
  Action action;
  friend constexpr bool operator==(Transition a, Transition b) = default;
};

namespace protocol_table {
using enum StreamState;
using enum Action;

constexpr Transition kBegins = {kArray, kBegin};
constexpr Transition kNamed = {kElsewhere, kBegin};
constexpr Transition kTaken = {kArray, kTake};
constexpr Transition kArrayLengths = {kArray, kTakeLengths};
constexpr Transition kNamedLengths = {kElsewhere, kTakeLengths};
constexpr Transition kCompared = {kCommitted, kCompare};
constexpr Transition kWhole = {kDone, kAnswer};
constexpr Transition kRefused = {kDone, kBadOrder};
constexpr Transition kEndedEarly = {kDone, kTruncated};
constexpr Transition kOver = {kDone, kNone};

// clang-format off
inline constexpr std::array<std::array<Transition, kMessageKinds>, kStreamStates> kTable = {{
  //                header    reference chunk     lengths        commit     end
  /* kStart */     {{kBegins,  kNamed,   kRefused, kRefused,      kRefused,  kEndedEarly}},
  /* kArray */     {{kRefused, kRefused, kTaken,   kArrayLengths, kCompared, kEndedEarly}},
  /* kElsewhere */ {{kRefused, kRefused, kRefused, kNamedLengths, kRefused,  kWhole}},
  /* kCommitted */ {{kRefused, kRefused, kRefused, kRefused,      kRefused,  kWhole}},
  /* kDone */      {{kOver,    kOver,    kOver,    kOver,         kOver,     kOver}},
}};
// clang-format on
}  // namespace protocol_table

constexpr Transition Next(StreamState state, MessageKind message) {
  return protocol_table::kTable[static_cast<std::size_t>(state)][static_cast<std::size_t>(message)];
}

}  // namespace warpfold::server
