// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Compares the table of docs/operators.md with the code: elements, identities, results, order. Its other
// columns are in operators_exactness_test.cc and operators_edges_test.cc.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/operators/table.h"
#include "tests/kernels/elements.h"
#include "tests/kernels/expect_same.h"
#include "tests/kernels/operators_document.h"
#include "tests/kernels/plain_loops.h"

namespace warpfold::kernels {
namespace {

TEST(OperatorsDocumentTest, HasARowForEachOperator) {
  std::vector<std::string> documented;
  for (const auto& [name, row] : ReadOperatorsDocument()) {
    EXPECT_EQ(name, row.at("operator"));
    documented.push_back(name);
  }
  std::vector<std::string> names;
  for (const absl::string_view name : OperatorNames()) names.emplace_back(name);
  EXPECT_THAT(documented, testing::UnorderedElementsAreArray(names));
}

TEST(OperatorsDocumentTest, ColumnElementsAndMatrices) {
  const std::map<std::string, DocumentRow> table = ReadOperatorsDocument();
  for (int op = 0; op < static_cast<int>(OperatorNames().size()); ++op) {
    const std::string name(OperatorNames()[op]);
    const std::string& elements = table.at(name).at("elements");
    const std::string& matrices = table.at(name).at("matrices");
    EXPECT_THAT(elements, testing::AnyOf("all", "integers", "floats", "32 and 64 bits"));
    EXPECT_THAT(matrices, testing::AnyOf("entrywise", "no", "square", "1 x 2"));
    for (int t = 0; t < kElementTypeCount; ++t) {
      SCOPED_TRACE(name + " " + std::to_string(t));
      const auto type = ElementTypeAt(t);
      const bool taken = elements == "all" || (elements == "integers" && !IsFloat(type)) ||
                         (elements == "floats" && IsFloat(type)) ||
                         (elements == "32 and 64 bits" && ElementTypeBytes(type) >= 4);
      const bool whole = matrices == "square" || matrices == "1 x 2";
      EXPECT_EQ(OperatorTakesScalars(op, type), taken && !whole);
      EXPECT_EQ(OperatorTakesMatrices(op, type), taken && matrices != "no");
      for (const ElementShape shape : {ElementShape{1, 1}, {1, 2}, {2, 1}, {2, 2}, {2, 3}, {8, 8}}) {
        ReductionSpec spec;
        spec.operators = {name};
        spec.element_type = type;
        spec.shape = shape;
        const bool fits = matrices == "entrywise" || (matrices == "square" && shape.rows == shape.columns) ||
                          (matrices == "1 x 2" && shape == ElementShape{1, 2});
        EXPECT_EQ(ReductionPlan::Create(spec).ok(), taken && fits) << shape.rows << " x " << shape.columns;
      }
    }
  }
}

// The value that a word of the document stands for.
Numbers ValueOfWord(const std::string& word, ElementType type) {
  const long double ones = type == ElementType::kBool ? 1
                           : IsSigned(type)
                               ? -1
                               : std::exp2(8 * static_cast<long double>(ElementTypeBytes(type))) - 1;
  const std::map<std::string, Numbers> values = {{"0", {0}},
                                                 {"-0.0", {-0.0L}},
                                                 {"1", {1}},
                                                 {"false", {0}},
                                                 {"true", {1}},
                                                 {"all ones", {ones}},
                                                 {"-inf", {-std::numeric_limits<long double>::infinity()}},
                                                 {"unit matrix", {1, 0, 0, 1}},
                                                 {"1 x + 0", {1, 0}}};
  const auto found = values.find(word);
  EXPECT_NE(found, values.end()) << word;
  return found == values.end() ? Numbers{} : found->second;
}

void ExpectWord(const std::vector<Scalar>& got, const std::string& word, ElementType type) {
  const Numbers wanted = ValueOfWord(word, type);
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(NumberOf(got[i]), wanted[i]);
    EXPECT_EQ(std::signbit(NumberOf(got[i])), std::signbit(wanted[i]));
    const bool truth = word == "true" || word == "false";
    if (type != ElementType::kBool) {
      EXPECT_EQ(got[i].kind == Scalar::Kind::kBool, truth);
    }
  }
}

using Bytes = std::vector<std::byte>;

Bytes Combined(const BoundOperator& op, const Bytes& a, const Bytes& b) {
  Bytes out(a.size());
  op.entry->combine(op.parameters, op.states, a.data(), b.data(), out.data());
  op.entry->canonicalize(op.states, out.data());
  return out;
}

// The state of a leaf that begins with a few elements, and ends with them.
Bytes RandomState(const OperatorCase& c, const ReductionPlan& reduction, Flavour flavour, Random& random,
                  std::uint64_t leaf = 0) {
  const auto elements = RandomElements(c.type, 7 * c.spec.shape.entries(), flavour, random);
  const PartialState state = ReduceOnHost(reduction, leaf * reduction.leaf_elements(), elements);
  const auto bytes = OperatorState(state, 0, 0);
  return {bytes.begin(), bytes.end()};
}

TEST(OperatorsDocumentTest, ColumnIdentity) {
  Random random;
  CheckColumn("identity", [&random](const std::string& word, const OperatorCase& c) {
    const ReductionPlan reduction = ReductionPlan::Create(c.spec).value();
    const BoundOperator& op = reduction.operators()[0];
    EXPECT_EQ(op.entry->has_identity, word != "none");
    if (word == "none") return;
    Bytes identity(op.state_bytes);
    op.entry->identity(op.parameters, 1, identity.data());
    for (const Flavour flavour : kFlavours) {
      // Ordered operators never combine it: it is made of 0 x inf, which is not a number.
      if (!op.entry->commutative && IsFloat(c.type) && flavour != Flavour::kTame) continue;
      const Bytes state = RandomState(c, reduction, flavour, random);
      EXPECT_EQ(Combined(op, identity, state), state);
      EXPECT_EQ(Combined(op, state, identity), state);
    }
    std::vector<Scalar> value;
    for (std::uint32_t i = 0; i < c.spec.shape.entries(); ++i) {
      const auto finish = [&](std::uint64_t count) {
        return op.entry->finish(op.parameters, identity.data(), count, i).value;
      };
      // The sum of no floats is a different zero than the identity.
      value.push_back(finish(finish(0).kind == Scalar::Kind::kDouble ? 1 : 0));
    }
    ExpectWord(value, word, c.type);
  });
}

TEST(OperatorsDocumentTest, ColumnEmptyArray) {
  CheckColumn("empty array", [](const std::string& word, const OperatorCase& c) {
    if (word == "EMPTY_ARRAY") {
      EXPECT_EQ(c.Answer({}), "EMPTY_ARRAY");
      return;
    }
    const absl::StatusOr<OperatorValue> value = c.Value({});
    ASSERT_TRUE(value.ok()) << value.status();
    ExpectWord(value->entries, word, c.type);
  });
}

TEST(OperatorsDocumentTest, ColumnResult) {
  CheckColumn("result", [](const std::string& word, const OperatorCase& c) {
    const Scalar::Kind wide = IsFloat(c.type)    ? Scalar::Kind::kDouble
                              : IsSigned(c.type) ? Scalar::Kind::kInt64
                                                 : Scalar::Kind::kUint64;
    const std::map<std::string, Scalar::Kind> kinds = {
        {"wide", wide},
        {"element", c.type == ElementType::kBool ? Scalar::Kind::kBool : wide},
        {"bool", Scalar::Kind::kBool},
        {"uint64", Scalar::Kind::kUint64},
        {"double", Scalar::Kind::kDouble}};
    const absl::StatusOr<OperatorValue> value = c.Value({1, 0});
    ASSERT_TRUE(value.ok()) << value.status();
    const std::vector<std::string> parts = absl::StrSplit(word, ", ");
    EXPECT_EQ(value->index.has_value(), std::count(parts.begin(), parts.end(), "index") == 1);
    EXPECT_EQ(value->end_index.has_value(), std::count(parts.begin(), parts.end(), "end_index") == 1);
    std::size_t fields = 0;
    for (const std::string& part : parts) {
      const std::vector<std::string> words = absl::StrSplit(part, ' ');  // "kind", or "name kind"
      if (part == "index" || part == "end_index") continue;
      ASSERT_TRUE(kinds.contains(words.back())) << part;
      if (words.size() == 1) {
        EXPECT_TRUE(value->fields.empty());
        for (const Scalar& entry : value->entries) EXPECT_EQ(entry.kind, kinds.at(part));
        continue;
      }
      ASSERT_LT(fields, value->fields.size());
      EXPECT_EQ(value->fields[fields], words[0]);
      EXPECT_EQ(value->entries[fields].kind, kinds.at(words[1]));
      ++fields;
    }
    EXPECT_EQ(value->fields.size(), fields);
  });
}

TEST(OperatorsDocumentTest, ColumnOrder) {
  Random random;
  CheckColumn("order", [&random](const std::string& word, const OperatorCase& c) {
    const ReductionPlan reduction = ReductionPlan::Create(c.spec).value();
    const BoundOperator& op = reduction.operators()[0];
    EXPECT_EQ(op.entry->commutative, word == "commutative");
    EXPECT_TRUE(word == "commutative" || word == "ordered");
    bool matters = false;
    // Tame booleans are all true.
    const Flavour flavour = c.type == ElementType::kBool ? Flavour::kUnits : Flavour::kTame;
    for (int i = 0; i < 50; ++i) {
      const Bytes a = RandomState(c, reduction, flavour, random);
      const Bytes b = RandomState(c, reduction, flavour, random, /*leaf=*/1);
      matters = matters || Combined(op, a, b) != Combined(op, b, a);
    }
    EXPECT_EQ(matters, word == "ordered");
  });
}

}  // namespace
}  // namespace warpfold::kernels
