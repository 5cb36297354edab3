// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/python/native/results.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/time/time.h"
#include "client/calls/translate.h"
#include "client/python/native/raise.h"

namespace warpfold::python {
namespace nb = nanobind;
namespace {

nb::object NumberOf(const Scalar& scalar) {
  return std::visit([](auto number) -> nb::object { return nb::cast(number); }, scalar);
}

struct ValueOf {
  nb::object operator()(const Scalar& scalar) const { return NumberOf(scalar); }
  nb::object operator()(const Matrix& matrix) const {
    nb::list entries;
    for (const Scalar& entry : matrix.entries) entries.append(NumberOf(entry));
    return nb::make_tuple(matrix.shape.rows, matrix.shape.columns, entries);
  }
  nb::object operator()(const Fields& fields) const {
    nb::dict values;
    for (const auto& [name, value] : fields) values[name.c_str()] = NumberOf(value);
    return values;
  }
};

nb::tuple OutcomeOf(const OperatorResult& result) {
  nb::object value = nb::none();
  nb::object error = nb::none();
  if (result.status.ok()) {
    value = std::visit(ValueOf{}, result.value);
  } else {
    error = ErrorParts(result.status);
  }
  return nb::make_tuple(result.name, value, result.index, result.end_index, error);
}

nb::list ListOf(const std::vector<std::string>& names) {
  nb::list list;
  for (const std::string& name : names) list.append(name);
  return list;
}

nb::dict LimitsOf(const v1::ServerLimits& limits) {
  nb::dict dict;
  dict["max_message_bytes"] = limits.max_message_bytes();
  dict["max_stream_bytes"] = limits.max_stream_bytes();
  dict["max_stream_seconds"] = limits.max_stream_seconds();
  dict["idle_timeout_seconds"] = limits.idle_timeout_seconds();
  dict["max_concurrent_reductions"] = limits.max_concurrent_reductions();
  dict["max_matrix_dimension"] = limits.max_matrix_dimension();
  dict["slots"] = limits.slots();
  dict["slot_bytes"] = limits.slot_bytes();
  dict["leaf_bytes"] = limits.leaf_bytes();
  dict["max_first_byte"] = limits.max_first_byte();
  dict["resident_bytes"] = limits.resident_bytes();
  dict["resident_owner_bytes"] = limits.resident_owner_bytes();
  dict["default_time_to_live_seconds"] = limits.default_time_to_live_seconds();
  dict["max_time_to_live_seconds"] = limits.max_time_to_live_seconds();
  return dict;
}

}  // namespace

nb::tuple TimingsTuple(const Timings& timings) {
  return nb::make_tuple(absl::ToDoubleSeconds(timings.total), absl::ToDoubleSeconds(timings.queue),
                        absl::ToDoubleSeconds(timings.receive), absl::ToDoubleSeconds(timings.copy),
                        absl::ToDoubleSeconds(timings.kernel));
}

nb::tuple ResultTuple(const Reduction& reduction) {
  nb::list outcomes;
  for (const OperatorResult& result : reduction.results) outcomes.append(OutcomeOf(result));
  return nb::make_tuple(outcomes, reduction.element_count, reduction.device, TimingsTuple(reduction.timings));
}

nb::object FirstNumber(const Reduction& reduction) {
  return NumberOf(std::get<Scalar>(reduction.results.front().value));
}

nb::dict InfoDict(const v1::GetServerInfoResponse& info) {
  nb::dict operators;
  for (const ServedOperator& row : ServedOperators(info)) {
    nb::dict types;
    types["scalars"] = ListOf(row.scalar_types);
    types["matrices"] = ListOf(row.matrix_types);
    operators[row.name.c_str()] = types;
  }
  nb::dict dict;
  dict["version"] = info.version();
  dict["backend"] = info.backend();
  dict["device"] = info.device();
  dict["operators"] = operators;
  dict["algorithms"] = ListOf(ServedAlgorithms(info));
  dict["limits"] = LimitsOf(info.limits());
  dict["cpu_crossover_bytes"] = info.cpu_crossover_bytes();
  return dict;
}

}  // namespace warpfold::python
