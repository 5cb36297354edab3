// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/benchmarks/cuda/cases.h"

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"

namespace warpfold::benchmarks {
namespace {

using kernels::ReductionPlan;
using kernels::ReductionSpec;
using Names = std::initializer_list<std::string>;

constexpr std::uint64_t kPrime = 998244353;  // a modulus of number-theoretic transforms

std::vector<int> Sizes(int first, int last, int step) {
  std::vector<int> sizes;
  for (int log2 = first; log2 <= last; log2 += step) sizes.push_back(log2);
  return sizes;
}

class CaseList {
 public:
  explicit CaseList(const Flags& flags) : flags_(flags) {}

  struct Shape {
    std::uint32_t dimension = 0;
    std::uint64_t modulus = 0;
  };

  void Add(const std::string& op, const std::string& dtype, const std::vector<int>& sizes, Shape shape,
           bool from_host = false) {
    std::string name = op + " of " + dtype;
    if (shape.dimension != 0) absl::StrAppend(&name, ", dimension ", shape.dimension);
    ReductionSpec spec;
    spec.operators = {op};
    spec.shape = {shape.dimension, shape.dimension};
    if (op == "affine_compose") spec.shape = {1, 2};
    if (shape.modulus != 0) spec.modulus = shape.modulus;
    const auto type = ElementTypeByName(dtype);
    if (!type) {
      std::fprintf(stderr, "left out: %s: no such type\n", name.c_str());
      return;
    }
    spec.element_type = *type;
    const auto reduction = ReductionPlan::Create(spec);
    if (!reduction.ok()) {
      std::fprintf(stderr, "left out: %s: %s\n", name.c_str(),
                   std::string(reduction.status().message()).c_str());
      return;
    }
    Case added{spec, {}, from_host};
    for (const int log2 : sizes) {
      const bool in_range = log2 >= flags_.min_log2 && log2 <= flags_.max_log2;
      if (in_range && (std::uint64_t{1} << log2) >= reduction->element_bytes())
        added.log2_bytes.push_back(log2);
    }
    cases_.push_back(added);
  }
  void AddAll(Names ops, Names dtypes, const std::vector<int>& sizes, bool from_host = false) {
    for (const std::string& op : ops) {
      for (const std::string& dtype : dtypes) Add(op, dtype, sizes, {}, from_host);
    }
  }
  std::vector<Case> Take() { return std::move(cases_); }

 private:
  const Flags& flags_;
  std::vector<Case> cases_;
};

void AddQuick(CaseList& cases) {
  const std::vector<int> sizes = {12, 16, 20, 22, 24, 28, 30, 32};
  cases.AddAll({"sum"}, {"int32", "int64", "float32", "float64"}, sizes);
  cases.AddAll({"min", "argmin"}, {"float32"}, {16, 20, 24, 28, 32});
  cases.AddAll({"sum"}, {"int8", "float16"}, {30});
  cases.Add("matrix_product", "uint32", {24, 30}, {4});
  cases.AddAll({"sum"}, {"int32", "float32"}, {12, 16, 20, 22}, /*from_host=*/true);
}

void AddStanding(CaseList& cases) {
  // Those with a counterpart in CUB, at every size.
  const std::vector<int> every = Sizes(10, 33, 1);
  cases.AddAll({"sum", "min", "max", "product"}, {"int32", "int64", "float32", "float64"}, every);
  cases.AddAll({"bit_and", "bit_or", "bit_xor"}, {"int32", "int64"}, every);
  // The others at sizes for which launches, the L2 cache and the memory are the limit.
  const std::vector<int> some = {16, 20, 22, 24, 26, 28, 30, 32, 33};
  cases.AddAll({"sum", "min"}, {"int8", "uint8", "int16", "uint16", "float16", "bfloat16"}, some);
  cases.AddAll({"max", "product", "minmax", "mean", "variance", "describe"},
               {"int8", "uint8", "int16", "float16", "bfloat16"}, {24, 30});
  cases.AddAll({"argmin", "argmax"}, {"int32", "int64", "float32", "float64"}, some);
  cases.AddAll({"mean", "minmax", "variance", "describe", "l1_norm", "l2_norm", "max_abs", "sum_of_squares"},
               {"int32", "int64", "float32", "float64"}, some);
  cases.AddAll({"exact_sum", "logsumexp"}, {"float32", "float64"}, some);
  cases.AddAll({"all", "any", "count_nonzero"}, {"int32", "float32"}, {20, 24, 28, 30, 32});
  cases.AddAll({"first", "last", "affine_compose", "max_subarray_sum"},
               {"int32", "int64", "float32", "float64"}, some);
  const std::vector<int> large = {20, 24, 28, 30, 32};
  for (const std::uint32_t d : {2u, 3u, 4u, 7u, 8u, 16u, 32u}) {
    cases.Add("matrix_product", "uint32", large, {d});
    cases.Add("matrix_product", "float32", large, {d});
    cases.Add("matrix_product", "uint32", large, {d, kPrime});
  }
  for (const std::uint32_t d : {1u, 2u, 4u, 32u}) cases.Add("sum", "float32", {22, 24, 28, 30, 32}, {d});
  cases.AddAll({"sum"}, {"int32", "float32", "float64"}, Sizes(10, 22, 1), /*from_host=*/true);
  cases.AddAll({"min", "argmin"}, {"float32"}, Sizes(10, 22, 2), /*from_host=*/true);
}

}  // namespace

std::vector<Case> Cases(const Flags& flags) {
  CaseList cases(flags);
  if (!flags.operators.empty()) {
    std::vector<std::uint32_t> dimensions = flags.matrix_dimensions;
    if (dimensions.empty()) dimensions = {0};
    const std::vector<int> sizes = Sizes(flags.min_log2, flags.max_log2, flags.step_log2);
    for (const std::string& op : flags.operators) {
      for (const std::string& dtype : flags.dtypes) {
        for (const std::uint32_t d : dimensions)
          cases.Add(op, dtype, sizes, {d, flags.modulus}, flags.from_host);
      }
    }
  } else if (flags.preset == "quick") {
    AddQuick(cases);
  } else {
    AddStanding(cases);
  }
  return cases.Take();
}

}  // namespace warpfold::benchmarks
