// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The table of docs/operators.md as a test reads it. The environment variable WARPFOLD_DOCS names the folder.
//
// A cell is a word, or clauses "scope: word; scope: word", where a scope is a set of element types. For each
// type that the operator takes exactly one word applies, and each word is a check.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/reduction.h"

namespace warpfold::kernels {

using DocumentRow = std::map<std::string, std::string>;  // by the column's title

// The rows by operator.
std::map<std::string, DocumentRow> ReadOperatorsDocument();

bool IsSigned(ElementType type);

// An operator over one element type.
struct OperatorCase {
  int op = 0;  // its position in OperatorNames()
  std::string name;
  ElementType type = ElementType::kInt32;
  ReductionSpec spec;  // over scalars if it takes them, else over its smallest matrices

  // The value over elements nearest to the numbers; over matrices, all entries of a matrix are the same
  // number.
  absl::StatusOr<OperatorValue> Value(const std::vector<double>& numbers, bool ignore_nan = false) const;
  std::vector<std::byte> Elements(const std::vector<double>& numbers) const;
  // The same as text; two texts are equal exactly if the bits are: expect_same.h.
  std::string Answer(const std::vector<double>& numbers, bool ignore_nan = false) const;
};

// Calls check for each operator and each element type that it takes.
void ForEachOperator(const std::function<void(const OperatorCase&, const DocumentRow&)>& check);

using WordCheck = std::function<void(const std::string& word, const OperatorCase&)>;

// Checks each cell's word for each element type. Fails if no word applies, or several, and if a clause
// applies to no type.
void CheckColumn(const std::string& title, const WordCheck& check);
// The same for a column about what only floats have: operators without floats have "-" there.
void CheckFloatColumn(const std::string& title, const WordCheck& check);

// Fails on words that are not among these. Each has to occur in the document.
class Vocabulary {
 public:
  using Check = std::function<void(const OperatorCase&)>;
  explicit Vocabulary(std::map<std::string, Check> words) : words_(std::move(words)) {}
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;
  ~Vocabulary();

  WordCheck AsCheck();

 private:
  std::map<std::string, Check> words_;
  std::map<std::string, int> uses_;
};

}  // namespace warpfold::kernels
