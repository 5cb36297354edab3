// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/reduction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/error.h"
#include "kernels/geometry.h"
#include "kernels/operators/element_types.h"
#include "kernels/operators/lists.h"
#include "kernels/operators/ordered_key.h"
#include "kernels/operators/table.h"
#include "proto/error_reasons.h"

namespace warpfold::kernels {
namespace {

constexpr std::size_t kStateAlignment = 16;

// The largest value of integers; 0 for floats.
constexpr auto kLargest = [] {
  std::array<std::uint64_t, kElementTypeCount> largest{};
  ForEachType(ElementTypes(), [&largest]<class T, int kType>() {
    if constexpr (IntegerElement<T>) largest[kType] = kLargestMagnitude<T> - kIsSigned<T>;
  });
  return largest;
}();
std::uint64_t LargestOf(ElementType type) { return kLargest[IndexOf(type)]; }

absl::Status BadHeader(absl::string_view field, absl::string_view message, absl::string_view limit = "") {
  ErrorMetadata metadata = {{"field", std::string(field)}};
  if (!limit.empty()) metadata.emplace_back("value", limit);
  return Error(absl::StatusCode::kInvalidArgument, reason::kBadHeader, absl::StrCat(field, ": ", message),
               metadata);
}

absl::Status Unsupported(absl::string_view op, absl::string_view message) {
  return Error(absl::StatusCode::kInvalidArgument, reason::kUnsupportedType, absl::StrCat(op, " ", message),
               {{"operator", std::string(op)}});
}

// Whether the spec's algorithm can serve the operator; always true for kAuto.
absl::Status CheckAlgorithm(const ReductionSpec& spec, absl::string_view name, const OperatorEntry& entry) {
  if (spec.algorithm == Algorithm::kAuto) return absl::OkStatus();
  const absl::string_view algorithm = AlgorithmName(spec.algorithm);
  const auto refuse = [&](absl::string_view why) {
    return Error(absl::StatusCode::kInvalidArgument, reason::kUnsupportedAlgorithm,
                 absl::StrCat("algorithm ", algorithm, " does not serve ", name, ": ", why),
                 {{"algorithm", std::string(algorithm)}, {"operator", std::string(name)}});
  };
  const std::string_view std_name(name.data(), name.size());
  if (spec.ignore_nan || !TextbookServes(spec.algorithm, std_name, spec.element_type, spec.shape)) {
    return refuse(kTextbookServes);
  }
  if (!entry.commutative && !KeepsOrder(spec.algorithm)) return refuse("it does not keep array order");
  return absl::OkStatus();
}

absl::Status CheckShape(ElementShape shape) {
  if (shape.rows == 0 && shape.columns == 0) return absl::OkStatus();
  if (shape.rows < 1 || shape.columns < 1 || shape.rows > kMaxMatrixDimension ||
      shape.columns > kMaxMatrixDimension) {
    return BadHeader("matrix_shape", absl::StrCat("rows and columns must be 1 to ", kMaxMatrixDimension),
                     absl::StrCat(kMaxMatrixDimension));
  }
  return absl::OkStatus();
}

template <class Property>
bool AnyHas(std::span<const BoundOperator> operators, Property has) {
  return std::any_of(operators.begin(), operators.end(),
                     [&has](const BoundOperator& op) { return has(*op.entry); });
}

// The operators that have the property over some elements, for example "variance, stddev and describe".
template <class Property>
std::string NamesOfAll(Property has) {
  const auto any = [&has](std::span<const OperatorEntry> entries) {
    return std::any_of(entries.begin(), entries.end(),
                       [&has](const OperatorEntry& entry) { return entry.supported && has(entry); });
  };
  std::vector<absl::string_view> names;
  for (const OperatorRow& row : OperatorTable()) {
    bool found = false;
    for (int type = 0; type < kElementTypeCount; ++type) {
      found = found || any(std::span(row.scalar[type]).last(1)) || any(row.whole[type]);
    }
    if (found) names.push_back(row.name);
  }
  const absl::string_view last = names.back();
  names.pop_back();
  return names.empty() ? std::string(last) : absl::StrCat(absl::StrJoin(names, ", "), " and ", last);
}

absl::Status CheckDdof(double ddof, std::span<const BoundOperator> operators) {
  if (!(ddof >= 0) || std::isinf(ddof)) {
    return BadHeader("ddof", "must be a finite number that is not negative");
  }
  const auto takes = [](const OperatorEntry& entry) { return entry.takes_ddof; };
  if (ddof == 0 || AnyHas(operators, takes)) return absl::OkStatus();
  return BadHeader("ddof", absl::StrCat("only for ", NamesOfAll(takes)));
}

// A policy says what to do in a certain case. If the case cannot arise, the policy changes nothing; if it
// can, and an operator does not follow the policy, that must not go unnoticed.
absl::Status CheckPolicies(const ReductionSpec& spec, std::span<const BoundOperator> operators) {
  const auto keeps_nan = [](const OperatorEntry& entry) { return !entry.ignores_nan; };
  if (spec.ignore_nan && AnyHas(operators, keeps_nan)) {
    return BadHeader("nan_policy", absl::StrCat(NamesOfAll(keeps_nan), " do not ignore NaN"));
  }
  for (std::size_t i = 0; spec.wrap_overflow && i < operators.size(); ++i) {
    const char* const why = operators[i].entry->never_wraps;
    if (why == nullptr) continue;
    return BadHeader("overflow_policy", absl::StrCat(spec.operators[i], " does not wrap: ", why));
  }
  const auto wraps = [](const OperatorEntry& entry) { return entry.takes_modulus; };
  if (spec.report_overflow && !spec.modulus.has_value() && AnyHas(operators, wraps)) {
    return BadHeader("overflow_policy",
                     absl::StrCat(NamesOfAll(wraps), " over integers wrap: they report no overflow"));
  }
  return absl::OkStatus();
}

absl::Status CheckModulus(const ReductionSpec& spec, std::span<const BoundOperator> operators) {
  if (!spec.modulus.has_value()) return absl::OkStatus();
  const auto takes = [](const OperatorEntry& entry) { return entry.takes_modulus; };
  if (!AnyHas(operators, takes)) {
    return BadHeader("modulus", absl::StrCat("only for ", NamesOfAll(takes), " over integers"));
  }
  const std::uint64_t largest = LargestOf(spec.element_type);
  if (*spec.modulus < 2 || *spec.modulus > largest) {
    return BadHeader("modulus", absl::StrCat("must be 2 to ", largest), absl::StrCat(largest));
  }
  return absl::OkStatus();
}

// Gives the operators of one kind places in a node from `offset` on; returns where the last one ends.
std::size_t PlaceStates(std::vector<BoundOperator>& operators, bool by_node, std::size_t offset) {
  for (BoundOperator& op : operators) {
    if (op.by_node != by_node) continue;
    op.state_offset = offset;
    offset += (op.state_bytes + kStateAlignment - 1) / kStateAlignment * kStateAlignment;
  }
  return offset;
}

bool TakesWholeMatrices(const OperatorRow& row, int type) {
  return std::any_of(row.whole[type].begin(), row.whole[type].end(),
                     [](const OperatorEntry& entry) { return entry.supported; });
}

absl::StatusOr<const OperatorEntry*> FindEntry(const ReductionSpec& spec, absl::string_view name) {
  const auto table = OperatorTable();
  const auto row =
      std::find_if(table.begin(), table.end(), [&](const OperatorRow& r) { return r.name == name; });
  if (row == table.end()) {
    return Error(absl::StatusCode::kUnimplemented, reason::kUnknownOperator,
                 "this server does not know that operator");
  }
  const int type = IndexOf(spec.element_type);
  const absl::string_view type_name = ElementTypeName(spec.element_type);
  const OperatorEntry& scalar = row->scalar[type][spec.ignore_nan ? 1 : 0];
  if (!spec.shape.is_matrix()) {
    if (scalar.supported) return &scalar;
    return Unsupported(name, TakesWholeMatrices(*row, type) ? "takes matrices, not scalars"
                                                            : absl::StrCat("does not take ", type_name));
  }
  if (TakesWholeMatrices(*row, type)) {
    const OperatorEntry& whole = row->whole[type][WholeIndex(spec.shape)];
    if (whole.supported) return &whole;
    const bool pairs = row->whole[type][kPairIndex].supported;
    return Unsupported(name, pairs ? "takes 1 x 2 matrices" : "takes square matrices");
  }
  if (!scalar.supported) return Unsupported(name, absl::StrCat("does not take ", type_name));
  if (!row->entrywise) return Unsupported(name, "takes scalars, not matrices");
  return &scalar;
}

}  // namespace

absl::StatusOr<ReductionPlan> ReductionPlan::Create(const ReductionSpec& asked_for) {
  auto contents = std::make_shared<Contents>();
  contents->spec = asked_for;
  // Integers have no NaN to ignore: their states are the same with both policies, and merge.
  if (!IsFloat(asked_for.element_type)) contents->spec.ignore_nan = false;
  const ReductionSpec& spec = contents->spec;
  if (spec.operators.empty() || spec.operators.size() > kMaxOperators) {
    return BadHeader("operators", absl::StrCat("must name 1 to ", kMaxOperators),
                     absl::StrCat(kMaxOperators));
  }
  if (absl::Status status = CheckShape(spec.shape); !status.ok()) return status;

  contents->element_bytes = spec.shape.entries() * ElementTypeBytes(spec.element_type);
  contents->leaf_elements = LeafElements(contents->element_bytes);
  for (std::size_t i = 0; i < spec.operators.size(); ++i) {
    const std::string& name = spec.operators[i];
    if (std::find(spec.operators.begin(), spec.operators.begin() + i, name) != spec.operators.begin() + i) {
      return BadHeader("operators", absl::StrCat("names ", name, " twice"));
    }
    const absl::StatusOr<const OperatorEntry*> entry = FindEntry(spec, name);
    if (!entry.ok()) return entry.status();
    if (absl::Status status = CheckAlgorithm(spec, name, **entry); !status.ok()) return status;
    BoundOperator bound;
    bound.entry = *entry;
    bound.parameters = {
        .wrap_overflow = spec.wrap_overflow, .modulus = spec.modulus.value_or(0), .ddof = spec.ddof};
    // The states of a named algorithm have no nodes: they are not canonical.
    bound.by_node = !bound.entry->associative && spec.algorithm == Algorithm::kAuto;
    bound.states = StatesOf(*bound.entry, spec.shape.entries());
    bound.state_bytes = bound.states * bound.entry->state_bytes;
    contents->operators.push_back(bound);
  }
  contents->by_node_bytes = PlaceStates(contents->operators, /*by_node=*/true, 0);
  contents->node_bytes = PlaceStates(contents->operators, /*by_node=*/false, contents->by_node_bytes);
  if (contents->node_bytes > kMaxNodeBytes) {
    return BadHeader("matrix_shape",
                     absl::StrCat("the operators' states of such matrices have ", contents->node_bytes,
                                  " bytes; at most ", kMaxNodeBytes),
                     absl::StrCat(kMaxNodeBytes));
  }
  const std::span<const BoundOperator> operators = contents->operators;
  if (absl::Status status = CheckModulus(spec, operators); !status.ok()) return status;
  if (absl::Status status = CheckDdof(spec.ddof, operators); !status.ok()) return status;
  if (absl::Status status = CheckPolicies(spec, operators); !status.ok()) return status;
  return ReductionPlan(std::move(contents));
}

std::span<const absl::string_view> OperatorNames() {
  static const auto* const names = [] {
    auto* list = new std::vector<absl::string_view>;
    for (const OperatorRow& row : OperatorTable()) list->push_back(row.name);
    return list;
  }();
  return *names;
}

bool OperatorTakesScalars(int family, ElementType type) {
  return OperatorTable()[family].scalar[IndexOf(type)][0].supported;
}

bool OperatorTakesMatrices(int family, ElementType type) {
  const OperatorRow& row = OperatorTable()[family];
  const int t = IndexOf(type);
  return TakesWholeMatrices(row, t) || (row.entrywise && row.scalar[t][0].supported);
}

}  // namespace warpfold::kernels
