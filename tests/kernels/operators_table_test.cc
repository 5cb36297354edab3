// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The table of docs/operators.md against the code. The environment variable WARPFOLD_DOCS names the folder.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/error.h"
#include "kernels/operators/table.h"
#include "kernels/reduction.h"

namespace warpfold::kernels {
namespace {

using DocumentRow = std::map<std::string, std::string>;  // by the column's title

std::vector<std::string> CellsOf(const std::string& line) {
  std::vector<std::string> cells = absl::StrSplit(line, '|');
  for (std::string& cell : cells) absl::StripAsciiWhitespace(&cell);
  return {cells.begin() + 1, cells.end() - 1};
}

// The rows by operator.
std::map<std::string, DocumentRow> ReadTable() {
  const char* const folder = std::getenv("WARPFOLD_DOCS");
  EXPECT_NE(folder, nullptr) << "WARPFOLD_DOCS names the folder of the documents";
  std::ifstream file(std::string(folder == nullptr ? "" : folder) + "/operators.md");
  EXPECT_TRUE(file.good());
  std::vector<std::string> titles;
  std::map<std::string, DocumentRow> rows;
  for (std::string line; std::getline(file, line);) {
    if (!absl::StartsWith(line, "| ")) continue;
    const std::vector<std::string> cells = CellsOf(line);
    if (titles.empty()) {
      titles = cells;
      continue;
    }
    EXPECT_EQ(cells.size(), titles.size()) << line;
    for (std::size_t i = 0; i < cells.size(); ++i) rows[cells[0]][titles[i]] = cells[i];
  }
  return rows;
}

bool IsFloat(ElementType type) {
  return absl::StrContains(ElementTypeName(type), "float");  // bfloat16, too
}
bool IsSigned(ElementType type) { return absl::StartsWith(ElementTypeName(type), "int"); }

// Calls check(operator's position, its row of the document, type) for what the code supports.
void ForEachSupported(const std::function<void(int, DocumentRow&, ElementType)>& check) {
  std::map<std::string, DocumentRow> table = ReadTable();
  for (int op = 0; op < static_cast<int>(OperatorNames().size()); ++op) {
    for (int t = 0; t < kElementTypeCount; ++t) {
      const auto type = static_cast<ElementType>(t);
      if (!OperatorTakesScalars(op, type) && !OperatorTakesMatrices(op, type)) continue;
      const std::string name(OperatorNames()[op]);
      SCOPED_TRACE(name + " of " + std::string(ElementTypeName(type)));
      check(op, table[name], type);
    }
  }
}

ReductionSpec SpecOf(int op, ElementType type) {
  ReductionSpec spec;
  spec.operators = {std::string(OperatorNames()[op])};
  spec.element_type = type;
  if (!OperatorTakesScalars(op, type)) spec.shape = {2, 2};
  return spec;
}

absl::StatusOr<OperatorValue> ValueOf(const ReductionSpec& spec, std::span<const std::byte> data) {
  return ReduceOnHost(Reduction::Create(spec).value(), 0, data).Finish(0);
}

double NumberOf(const Scalar& scalar) {
  switch (scalar.kind) {
    case Scalar::Kind::kInt64:
      return static_cast<double>(scalar.int64_value);
    case Scalar::Kind::kUint64:
      return static_cast<double>(scalar.uint64_value);
    case Scalar::Kind::kDouble:
      return scalar.double_value;
    case Scalar::Kind::kBool:
      return scalar.bool_value ? 1 : 0;
  }
  return 0;
}

std::vector<double> NumbersOf(const OperatorValue& value) {
  std::vector<double> numbers;
  for (const Scalar& entry : value.entries) numbers.push_back(NumberOf(entry));
  return numbers;
}

// What the document calls `empty`, in numbers.
std::vector<double> EmptyValue(const std::string& cell, ElementType type) {
  if (cell == "0" || cell == "false") return {0};
  if (cell == "1" || cell == "true") return {1};
  if (cell == "unit matrix") return {1, 0, 0, 1};
  EXPECT_EQ(cell, "all ones");
  if (type == ElementType::kBool) return {1};
  if (IsSigned(type)) return {-1};
  return {std::pow(2.0, 8.0 * static_cast<double>(ElementTypeBytes(type))) -
          1};  // or as near as a double comes
}

TEST(OperatorsTableTest, HasARowForEachOperator) {
  std::vector<std::string> documented;
  for (const auto& [name, row] : ReadTable()) documented.push_back(name);
  std::vector<std::string> names;
  for (const absl::string_view name : OperatorNames()) names.emplace_back(name);
  EXPECT_THAT(documented, testing::UnorderedElementsAreArray(names));
}

TEST(OperatorsTableTest, ElementsAndMatrices) {
  std::map<std::string, DocumentRow> table = ReadTable();
  for (int op = 0; op < static_cast<int>(OperatorNames().size()); ++op) {
    DocumentRow& row = table[std::string(OperatorNames()[op])];
    for (int t = 0; t < kElementTypeCount; ++t) {
      SCOPED_TRACE(row["operator"] + " " + std::to_string(t));
      const auto type = static_cast<ElementType>(t);
      const bool taken = row["elements"] == "all" || (row["elements"] == "integers" && !IsFloat(type)) ||
                         (row["elements"] == "32 and 64 bits" && ElementTypeBytes(type) >= 4);
      EXPECT_EQ(OperatorTakesScalars(op, type), taken && row["matrices"] != "square");
      EXPECT_EQ(OperatorTakesMatrices(op, type), taken && row["matrices"] != "no");
      if (taken && row["matrices"] == "square") {
        ReductionSpec oblong = SpecOf(op, type);
        oblong.shape = {2, 3};
        EXPECT_FALSE(Reduction::Create(oblong).ok());
      }
    }
  }
}

TEST(OperatorsTableTest, IdentityAndEmptyArray) {
  ForEachSupported([](int op, DocumentRow& row, ElementType type) {
    const absl::StatusOr<OperatorValue> value = ValueOf(SpecOf(op, type), {});
    EXPECT_EQ(value.ok(), row["identity"] != "none");
    if (row["empty array"] == "EMPTY_ARRAY") {
      EXPECT_EQ(ErrorReason(value.status()), "EMPTY_ARRAY");
    } else {
      ASSERT_TRUE(value.ok()) << value.status();
      EXPECT_EQ(NumbersOf(*value), EmptyValue(row["empty array"], type));
      EXPECT_TRUE(absl::StartsWith(row["identity"], row["empty array"]));
    }
  });
}

TEST(OperatorsTableTest, ResultAndOrder) {
  ForEachSupported([](int op, DocumentRow& row, ElementType type) {
    const Reduction reduction = Reduction::Create(SpecOf(op, type)).value();
    EXPECT_EQ(row["order"], reduction.operators()[0].entry->commutative ? "commutative" : "ordered");

    const std::vector<std::byte> zeros(reduction.element_bytes());
    const absl::StatusOr<OperatorValue> value = ValueOf(reduction.spec(), zeros);
    ASSERT_TRUE(value.ok()) << value.status();
    const Scalar::Kind wide = IsFloat(type)    ? Scalar::Kind::kDouble
                              : IsSigned(type) ? Scalar::Kind::kInt64
                                               : Scalar::Kind::kUint64;
    const Scalar::Kind natural = type == ElementType::kBool ? Scalar::Kind::kBool : wide;
    const std::map<std::string, Scalar::Kind> kinds = {{"wide", wide},
                                                       {"element", natural},
                                                       {"element, and the index", natural},
                                                       {"bool", Scalar::Kind::kBool},
                                                       {"uint64", Scalar::Kind::kUint64},
                                                       {"double", Scalar::Kind::kDouble}};
    ASSERT_TRUE(kinds.count(row["result"])) << row["result"];
    EXPECT_EQ(value->entries[0].kind, kinds.at(row["result"]));
    EXPECT_EQ(value->index.has_value(), absl::StrContains(row["result"], "index"));
  });
}

std::vector<std::byte> Floats(ElementType type, const std::vector<double>& numbers) {
  std::vector<std::byte> bytes(numbers.size() * ElementTypeBytes(type));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto narrow = static_cast<float>(numbers[i]);
    if (type == ElementType::kFloat32) std::memcpy(&bytes[i * sizeof narrow], &narrow, sizeof narrow);
    if (type == ElementType::kFloat64) std::memcpy(&bytes[i * sizeof(double)], &numbers[i], sizeof(double));
    // Of NaN, which is all that is asked of them, the upper half will do for both.
    if (ElementTypeBytes(type) == 2) {
      std::memcpy(&bytes[2 * i], reinterpret_cast<const char*>(&narrow) + 2, 2);
    }
  }
  return bytes;
}

TEST(OperatorsTableTest, Nan) {
  static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  ForEachSupported([](int op, DocumentRow& row, ElementType type) {
    EXPECT_EQ(row["NaN"] == "-", row["elements"] == "integers");
    if (!IsFloat(type)) return;
    ReductionSpec spec = SpecOf(op, type);
    const std::vector<std::byte> one = Floats(type, std::vector<double>(spec.shape.entries(), kNan));
    const double value = NumbersOf(ValueOf(spec, one).value())[0];
    EXPECT_EQ(std::isnan(value), absl::StartsWith(row["NaN"], "NaN")) << value;
    if (row["NaN"] == "not zero") {
      EXPECT_EQ(value, 1);
    }

    spec.ignore_nan = true;
    const absl::StatusOr<OperatorValue> ignoring = ValueOf(spec, one);
    const std::string& cell = row["NaN ignored"];
    if (absl::EndsWith(cell, "EMPTY_ARRAY")) {
      EXPECT_EQ(ErrorReason(ignoring.status()), "EMPTY_ARRAY");
      return;
    }
    ASSERT_TRUE(ignoring.ok()) << ignoring.status();
    const double number = NumbersOf(*ignoring)[0];
    EXPECT_EQ(std::isnan(number), absl::EndsWith(cell, ": NaN") || cell == "not ignored") << number;
    if (cell == "counts as 0.0" || cell == "skipped") {
      EXPECT_EQ(number, 0);
    } else if (cell == "counts as 1" || cell == "not zero") {
      EXPECT_EQ(number, 1);
    }
  });
}

}  // namespace
}  // namespace warpfold::kernels
