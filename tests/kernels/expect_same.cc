// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/expect_same.h"

#include <cstring>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/error.h"

namespace warpfold::kernels {
namespace {

std::string DescribeScalar(const Scalar& value) {
  switch (value.kind) {
    case Scalar::Kind::kInt64:
      return absl::StrCat("int64 ", value.int64_value);
    case Scalar::Kind::kUint64:
      return absl::StrCat("uint64 ", value.uint64_value);
    case Scalar::Kind::kBool:
      return value.bool_value ? "true" : "false";
    case Scalar::Kind::kDouble: {
      std::uint64_t bits;
      std::memcpy(&bits, &value.double_value, sizeof bits);
      return absl::StrCat("double 0x", absl::Hex(bits, absl::kZeroPad16));
    }
  }
  return "no kind";
}

std::vector<std::string> DescribeNodes(std::span<const NodePosition> nodes) {
  std::vector<std::string> text;
  for (const NodePosition node : nodes) text.push_back(absl::StrCat(node.level, ":", node.index));
  return text;
}

std::string Describe(const std::vector<Outcome>& outcomes) {
  std::vector<std::string> text;
  for (const Outcome& outcome : outcomes) {
    if (outcome.error == Outcome::Error::kOverflow) return "OVERFLOW";
    if (outcome.error == Outcome::Error::kEmpty) return "EMPTY_ARRAY";
    text.push_back(DescribeScalar(outcome.value));
    if (outcome.index != Outcome::kNoIndex) text.push_back(absl::StrCat("at ", outcome.index));
    if (outcome.end_index != Outcome::kNoIndex) text.push_back(absl::StrCat("to ", outcome.end_index));
  }
  return absl::StrJoin(text, " ");
}

}  // namespace

std::string Hex(std::span<const std::byte> bytes) {
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

std::string Describe(const absl::StatusOr<OperatorValue>& value) {
  if (!value.ok()) return ErrorReason(value.status());
  std::string text = absl::StrJoin(value->entries, " ", [](std::string* out, const Scalar& entry) {
    absl::StrAppend(out, DescribeScalar(entry));
  });
  if (value->index.has_value()) absl::StrAppend(&text, " at ", *value->index);
  if (value->end_index.has_value()) absl::StrAppend(&text, " to ", *value->end_index);
  return text;
}

std::size_t StateCount(const PartialState& state, std::size_t op) {
  if (state.reduction().operators()[op].by_node) return state.nodes().size();
  return state.element_count() == 0 ? 0 : 1;
}

std::span<const std::byte> OperatorState(const PartialState& state, std::size_t i, std::size_t op) {
  return state.reduction().operators()[op].by_node ? state.NodeState(op, i) : state.RangeState(op);
}

void ExpectSame(const PartialState& state, std::size_t op, const reference::Result& expected) {
  if (state.reduction().operators()[op].by_node) {
    ASSERT_EQ(DescribeNodes(state.nodes()), DescribeNodes(expected.nodes));
    for (std::size_t i = 0; i < expected.nodes.size(); ++i) {
      ASSERT_EQ(Hex(OperatorState(state, i, op)), Hex(expected.states[i])) << "state of node " << i;
    }
  } else if (state.element_count() > 0) {
    ASSERT_EQ(Hex(OperatorState(state, 0, op)), Hex(expected.range_state));
  }
  ASSERT_EQ(Describe(state.Finish(op)), Describe(expected.outcomes));
}

void ExpectSame(const PartialState& state, const PartialState& expected) {
  ASSERT_EQ(state.first_element(), expected.first_element());
  ASSERT_EQ(state.element_count(), expected.element_count());
  ASSERT_EQ(DescribeNodes(state.nodes()), DescribeNodes(expected.nodes()));
  for (std::size_t op = 0; op < expected.reduction().operators().size(); ++op) {
    for (std::size_t i = 0; i < StateCount(expected, op); ++i) {
      ASSERT_EQ(Hex(OperatorState(state, i, op)), Hex(OperatorState(expected, i, op)))
          << expected.reduction().spec().operators[op] << ", state " << i;
    }
  }
}

}  // namespace warpfold::kernels
