// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/calls/protocol.h"

#include <gtest/gtest.h>

namespace warpfold::server {
namespace {

struct Row {
  StreamState state;
  MessageKind message;
  Transition expected;
};

// This repeats the table, but follows the comments of reduction.proto and segments.proto rather than the
// table.
constexpr Row kExpected[] = {
    {StreamState::kStart, MessageKind::kHeader, {StreamState::kArray, Action::kBegin}},
    {StreamState::kStart, MessageKind::kReference, {StreamState::kElsewhere, Action::kBegin}},
    {StreamState::kStart, MessageKind::kChunk, {StreamState::kDone, Action::kBadOrder}},
    {StreamState::kStart, MessageKind::kLengths, {StreamState::kDone, Action::kBadOrder}},
    {StreamState::kStart, MessageKind::kCommit, {StreamState::kDone, Action::kBadOrder}},
    {StreamState::kStart, MessageKind::kEnd, {StreamState::kDone, Action::kTruncated}},
    {StreamState::kArray, MessageKind::kHeader, {StreamState::kDone, Action::kBadOrder}},
    {StreamState::kArray, MessageKind::kReference, {StreamState::kDone, Action::kBadOrder}},
    {StreamState::kArray, MessageKind::kChunk, {StreamState::kArray, Action::kTake}},
    {StreamState::kArray, MessageKind::kLengths, {StreamState::kArray, Action::kTakeLengths}},
    {StreamState::kArray, MessageKind::kCommit, {StreamState::kCommitted, Action::kCompare}},
    {StreamState::kArray, MessageKind::kEnd, {StreamState::kDone, Action::kTruncated}},
    {StreamState::kElsewhere, MessageKind::kHeader, {StreamState::kDone, Action::kBadOrder}},
    {StreamState::kElsewhere, MessageKind::kReference, {StreamState::kDone, Action::kBadOrder}},
    {StreamState::kElsewhere, MessageKind::kChunk, {StreamState::kDone, Action::kBadOrder}},
    {StreamState::kElsewhere, MessageKind::kLengths, {StreamState::kElsewhere, Action::kTakeLengths}},
    {StreamState::kElsewhere, MessageKind::kCommit, {StreamState::kDone, Action::kBadOrder}},
    {StreamState::kElsewhere, MessageKind::kEnd, {StreamState::kDone, Action::kAnswer}},
    {StreamState::kCommitted, MessageKind::kHeader, {StreamState::kDone, Action::kBadOrder}},
    {StreamState::kCommitted, MessageKind::kReference, {StreamState::kDone, Action::kBadOrder}},
    {StreamState::kCommitted, MessageKind::kChunk, {StreamState::kDone, Action::kBadOrder}},
    {StreamState::kCommitted, MessageKind::kLengths, {StreamState::kDone, Action::kBadOrder}},
    {StreamState::kCommitted, MessageKind::kCommit, {StreamState::kDone, Action::kBadOrder}},
    {StreamState::kCommitted, MessageKind::kEnd, {StreamState::kDone, Action::kAnswer}},
    {StreamState::kDone, MessageKind::kHeader, {StreamState::kDone, Action::kNone}},
    {StreamState::kDone, MessageKind::kReference, {StreamState::kDone, Action::kNone}},
    {StreamState::kDone, MessageKind::kChunk, {StreamState::kDone, Action::kNone}},
    {StreamState::kDone, MessageKind::kLengths, {StreamState::kDone, Action::kNone}},
    {StreamState::kDone, MessageKind::kCommit, {StreamState::kDone, Action::kNone}},
    {StreamState::kDone, MessageKind::kEnd, {StreamState::kDone, Action::kNone}},
};

TEST(ProtocolTest, EveryStateAndMessage) {
  static_assert(std::size(kExpected) == kStreamStates * kMessageKinds);
  for (const Row& row : kExpected) {
    EXPECT_TRUE(Next(row.state, row.message) == row.expected)
        << "state " << static_cast<int>(row.state) << ", message " << static_cast<int>(row.message);
  }
}

TEST(ProtocolTest, OnlyTheEndOfACommittedStreamOrOfAReferenceIsAnswered) {
  for (int state = 0; state < kStreamStates; ++state) {
    for (int message = 0; message < kMessageKinds; ++message) {
      const auto before = static_cast<StreamState>(state);
      const Transition transition = Next(before, static_cast<MessageKind>(message));
      const bool is_whole = before == StreamState::kCommitted || before == StreamState::kElsewhere;
      EXPECT_EQ(transition.action == Action::kAnswer,
                is_whole && static_cast<MessageKind>(message) == MessageKind::kEnd);
    }
  }
}

}  // namespace
}  // namespace warpfold::server
