// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/operators_document.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "tests/kernels/elements.h"
#include "tests/kernels/expect_same.h"

namespace warpfold::kernels {
namespace {

std::vector<std::string> CellsOf(const std::string& line) {
  std::vector<std::string> cells = absl::StrSplit(line, '|');
  for (std::string& cell : cells) absl::StripAsciiWhitespace(&cell);
  return {cells.begin() + 1, cells.end() - 1};
}

bool InScope(const std::string& scope, ElementType type) {
  const bool float64 = type == ElementType::kFloat64;
  const std::map<std::string, bool> scopes = {{"", true},
                                              {"integers", !IsFloat(type)},
                                              {"floats", IsFloat(type)},
                                              {"float64", float64},
                                              {"narrower floats", IsFloat(type) && !float64}};
  const auto found = scopes.find(scope);
  EXPECT_NE(found, scopes.end()) << "no scope " << scope;
  return found != scopes.end() && found->second;
}

struct Clause {
  std::string scope;  // empty: all types
  std::string word;
};

std::vector<Clause> ClausesOf(const std::string& cell) {
  std::vector<Clause> clauses;
  for (const absl::string_view text : absl::StrSplit(cell, "; ")) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(": ", 1));
    const bool scoped = absl::StrContains(text, ": ");
    clauses.push_back(scoped ? Clause{parts.first, parts.second} : Clause{"", std::string(text)});
  }
  return clauses;
}

OperatorCase CaseOf(int op, ElementType type, const DocumentRow& row) {
  OperatorCase c = {.op = op, .name = std::string(OperatorNames()[op]), .type = type, .spec = {}};
  c.spec.operators = {c.name};
  c.spec.element_type = type;
  const std::string& matrices = row.at("matrices");
  if (matrices == "square") c.spec.shape = {2, 2};
  if (matrices == "1 x 2") c.spec.shape = {1, 2};
  return c;
}

void Check(const std::string& title, const WordCheck& check, bool only_floats) {
  std::map<std::string, std::set<std::string>> applied;  // scopes by operator
  ForEachOperator([&](const OperatorCase& c, const DocumentRow& row) {
    const std::string& cell = row.at(title);
    if (only_floats && row.at("elements") == "integers") {
      EXPECT_EQ(cell, "-");
      return;
    }
    if (only_floats && !IsFloat(c.type)) return;
    int words = 0;
    for (const Clause& clause : ClausesOf(cell)) {
      if (!InScope(clause.scope, c.type)) continue;
      ++words;
      applied[c.name].insert(clause.scope);
      SCOPED_TRACE(title + ": " + clause.word);
      check(clause.word, c);
    }
    EXPECT_EQ(words, 1) << cell;
  });
  for (const auto& [name, row] : ReadOperatorsDocument()) {
    if (row.at(title) == "-") continue;
    for (const Clause& clause : ClausesOf(row.at(title))) {
      EXPECT_TRUE(applied[name].contains(clause.scope)) << name << ": nothing has checked " << clause.word;
    }
  }
}

}  // namespace

std::map<std::string, DocumentRow> ReadOperatorsDocument() {
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
    for (std::size_t i = 0; i < std::min(cells.size(), titles.size()); ++i) {
      EXPECT_FALSE(cells[i].empty()) << line;
      rows[cells[0]][titles[i]] = cells[i];
    }
  }
  return rows;
}

bool IsSigned(ElementType type) { return absl::StartsWith(ElementTypeName(type), "int"); }

std::vector<std::byte> OperatorCase::Elements(const std::vector<double>& numbers) const {
  std::vector<double> entries;
  for (const double x : numbers) entries.insert(entries.end(), spec.shape.entries(), x);
  return ElementsOf(type, entries);
}

absl::StatusOr<OperatorValue> OperatorCase::Value(const std::vector<double>& numbers, bool ignore_nan) const {
  ReductionSpec asked = spec;
  asked.ignore_nan = ignore_nan;
  return ReduceOnHost(ReductionPlan::Create(asked).value(), 0, Elements(numbers)).Finish(0);
}

std::string OperatorCase::Answer(const std::vector<double>& numbers, bool ignore_nan) const {
  return Describe(Value(numbers, ignore_nan));
}

void ForEachOperator(const std::function<void(const OperatorCase&, const DocumentRow&)>& check) {
  const std::map<std::string, DocumentRow> table = ReadOperatorsDocument();
  for (int op = 0; op < static_cast<int>(OperatorNames().size()); ++op) {
    const std::string name(OperatorNames()[op]);
    if (!table.contains(name)) {
      ADD_FAILURE() << name << " has no row";
      continue;
    }
    for (int t = 0; t < kElementTypeCount; ++t) {
      const auto type = ElementTypeAt(t);
      if (!OperatorTakesScalars(op, type) && !OperatorTakesMatrices(op, type)) continue;
      SCOPED_TRACE(name + " of " + std::string(ElementTypeName(type)));
      check(CaseOf(op, type, table.at(name)), table.at(name));
    }
  }
}

void CheckColumn(const std::string& title, const WordCheck& check) { Check(title, check, false); }
void CheckFloatColumn(const std::string& title, const WordCheck& check) { Check(title, check, true); }

WordCheck Vocabulary::AsCheck() {
  return [this](const std::string& word, const OperatorCase& c) {
    const auto found = words_.find(word);
    if (found == words_.end()) {
      ADD_FAILURE() << "nothing can check this word";
      return;
    }
    ++uses_[word];
    found->second(c);
  };
}

Vocabulary::~Vocabulary() {
  for (const auto& [word, check] : words_) EXPECT_GT(uses_[word], 0) << "the document does not say " << word;
}

}  // namespace warpfold::kernels
