// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes reductions of random arrays, one JSON object a line: the request, the elements, the partial state
// and the value. canonical_order_test.py computes them anew from the specification.
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/reduction.h"
#include "nlohmann/json.hpp"
#include "tests/kernels/elements.h"
#include "tests/kernels/expect_same.h"
#include "tests/kernels/subjects.h"

namespace warpfold::kernels {
namespace {

nlohmann::json Describe(const ReductionSpec& spec) {
  return {{"operator", spec.operators[0]},
          {"type", std::string(ElementTypeName(spec.element_type))},
          {"rows", spec.shape.rows},
          {"columns", spec.shape.columns},
          {"ignore_nan", spec.ignore_nan},
          {"wrap", spec.wrap_overflow},
          {"modulus", spec.modulus.value_or(0)},
          {"ddof", spec.ddof}};
}

void Dump(const Subject& subject, std::uint64_t first_leaf, std::uint64_t count, Flavour flavour,
          Random& random) {
  const ReductionPlan reduction = ReductionPlan::Create(subject.spec).value();
  const std::uint64_t first = first_leaf * reduction.leaf_elements();
  const std::vector<std::byte> data =
      RandomElements(subject.spec.element_type, count * subject.spec.shape.entries(), flavour, random);
  const PartialState state = ReduceOnHost(reduction, first, data);
  nlohmann::json nodes = nlohmann::json::array();
  for (std::size_t i = 0; i < state.nodes().size(); ++i) {
    nodes.push_back({state.nodes()[i].level, state.nodes()[i].index, Hex(OperatorState(state, i, 0))});
  }
  const bool has_range_state = state.nodes().empty() && count > 0;
  const nlohmann::json line = {{"spec", Describe(subject.spec)},
                               {"first", first},
                               {"data", Hex(data)},
                               {"nodes", nodes},
                               {"range", has_range_state ? Hex(OperatorState(state, 0, 0)) : ""},
                               {"value", Describe(state.Finish(0))}};
  std::cout << line << "\n";
}

void DumpAll() {
  Random random;
  for (Subject subject : AllSubjects()) {
    const std::uint64_t leaf = ReductionPlan::Create(subject.spec).value().leaf_elements();
    Dump(subject, 0, 0, Flavour::kTame, random);
    Dump(subject, 0, 1, Flavour::kBits, random);
    Dump(subject, 2, 1 + random() % leaf, Flavour::kUnits, random);
    Dump(subject, 0, leaf + 1 + random() % leaf, Flavour::kExtreme, random);
    const std::string& op = subject.spec.operators[0];
    if (op == "variance" || op == "stddev" || op == "describe") subject.spec.ddof = 1;
    Dump(subject, 3, 3 * leaf + random() % leaf, Flavour::kWide, random);
  }
}

}  // namespace
}  // namespace warpfold::kernels

int main() {
  warpfold::kernels::DumpAll();
  return 0;
}
