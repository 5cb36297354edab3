// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/wire/messages.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"
#include "server/core/bad_request.h"
#include "server/core/wire/operator_names.h"
#include "server/core/wire/state_messages.h"

namespace warpfold::server {
namespace {

absl::Status AddOperators(const v1::ReductionSpec& spec, kernels::ReductionSpec* result) {
  if (spec.operators_size() > kernels::kMaxOperators) {
    return BadHeader("operators", absl::StrCat("has more than ", kernels::kMaxOperators, " entries"),
                     kernels::kMaxOperators);
  }
  for (const int number : spec.operators()) {
    const auto op = static_cast<v1::Operator>(number);
    if (op == v1::OPERATOR_UNSPECIFIED) return BadHeader("operators", "has an entry OPERATOR_UNSPECIFIED");
    std::string name = OperatorName(op);
    if (name.empty()) {
      return kernels::Error(absl::StatusCode::kUnimplemented, reason::kUnknownOperator,
                            absl::StrCat("this server does not know operator number ", number),
                            {{"operator", std::to_string(number)}});
    }
    result->operators.push_back(std::move(name));
  }
  return absl::OkStatus();
}

// Result: v1::OperatorResult or v1::Field.
template <typename Result>
void SetValue(const kernels::Scalar& scalar, Result* result) {
  switch (scalar.kind) {
    case kernels::Scalar::Kind::kInt64:
      return result->set_int64_value(scalar.int64_value);
    case kernels::Scalar::Kind::kUint64:
      return result->set_uint64_value(scalar.uint64_value);
    case kernels::Scalar::Kind::kDouble:
      return result->set_double_value(scalar.double_value);
    case kernels::Scalar::Kind::kBool:
      return result->set_bool_value(scalar.bool_value);
  }
}

void AddEntry(const kernels::Scalar& scalar, v1::MatrixValue* matrix) {
  switch (scalar.kind) {
    case kernels::Scalar::Kind::kInt64:
      return matrix->add_int64_entries(scalar.int64_value);
    case kernels::Scalar::Kind::kUint64:
      return matrix->add_uint64_entries(scalar.uint64_value);
    case kernels::Scalar::Kind::kDouble:
      return matrix->add_double_entries(scalar.double_value);
    case kernels::Scalar::Kind::kBool:
      return matrix->add_bool_entries(scalar.bool_value);
  }
}

void FillValue(const kernels::OperatorValue& value, v1::OperatorResult* result) {
  if (value.index.has_value()) result->set_index(*value.index);
  if (value.end_index.has_value()) result->set_end_index(*value.end_index);
  if (!value.fields.empty()) {
    for (std::size_t i = 0; i < value.fields.size(); ++i) {
      v1::Field& field = *result->mutable_fields_value()->add_fields();
      field.set_name(value.fields[i]);
      SetValue(value.entries[i], &field);
    }
    return;
  }
  if (!value.shape.is_matrix()) return SetValue(value.entries.front(), result);
  v1::MatrixValue& matrix = *result->mutable_matrix_value();
  matrix.set_rows(value.shape.rows);
  matrix.set_columns(value.shape.columns);
  for (const kernels::Scalar& entry : value.entries) AddEntry(entry, &matrix);
}

// Whether the operator has no value here, rather than that something went wrong.
bool IsMissingValue(const absl::Status& status) {
  const std::string reason = kernels::ErrorReason(status);
  return reason == reason::kOverflow || reason == reason::kEmptyArray;
}

absl::Status CheckReference(const v1::ArrayReference& reference, const NamedMemory& memory,
                            const kernels::ReductionPlan& reduction) {
  const std::uint64_t element_bytes = reduction.element_bytes();
  if (memory.layout().has_value()) {
    const bool has_type = memory.layout()->type == reduction.spec().element_type;
    if (!has_type || memory.layout()->shape != reduction.spec().shape) {
      return BadHeader(has_type ? "spec.matrix_shape" : "spec.element_type",
                       "must be that of the kept array");
    }
    if (reference.byte_offset() % element_bytes != 0) {
      return BadHeader("reference.byte_offset",
                       absl::StrCat("must be a multiple of an element's ", element_bytes, " bytes"));
    }
  }
  if (reference.byte_offset() > memory.byte_count() ||
      reference.element_count() > (memory.byte_count() - reference.byte_offset()) / element_bytes) {
    return BadHeader("reference.element_count",
                     absl::StrCat("reaches beyond the ", memory.byte_count(), " bytes that there are"));
  }
  return absl::OkStatus();
}

// An option of a later version must not be passed over: without it the value would be another one.
absl::Status CheckAllKnown(const char* field, const google::protobuf::Message& message) {
  const auto& unknown = message.GetReflection()->GetUnknownFields(message);
  if (unknown.empty()) return absl::OkStatus();
  return BadHeader(
      field, absl::StrCat("has field ", unknown.field(0).number(), ", which this server does not know"));
}

}  // namespace

absl::StatusOr<kernels::ReductionPlan> PlanFromProto(const v1::ReductionSpec& spec) {
  // Protobuf reads a spec that was left out as one without fields.
  if (spec.ByteSizeLong() == 0) return BadHeader("spec", "is missing");
  if (absl::Status status = CheckAllKnown("spec", spec); !status.ok()) return status;
  kernels::ReductionSpec result;
  if (absl::Status status = AddOperators(spec, &result); !status.ok()) return status;
  const absl::StatusOr<ElementLayout> layout =
      LayoutFromProto(spec.element_type(), spec.has_matrix_shape() ? &spec.matrix_shape() : nullptr);
  if (!layout.ok()) return layout.status();
  result.element_type = layout->type;
  result.shape = layout->shape;
  if (!v1::OverflowPolicy_IsValid(spec.overflow_policy())) return BadHeader("overflow_policy", "is unknown");
  if (!v1::NanPolicy_IsValid(spec.nan_policy())) return BadHeader("nan_policy", "is unknown");
  result.wrap_overflow = spec.overflow_policy() == v1::OVERFLOW_POLICY_WRAP;
  result.report_overflow = spec.overflow_policy() == v1::OVERFLOW_POLICY_ERROR;
  result.ignore_nan = spec.nan_policy() == v1::NAN_POLICY_IGNORE;
  if (spec.has_modulus()) result.modulus = spec.modulus();
  result.ddof = spec.ddof();
  const auto algorithm = AlgorithmFromProto(spec.algorithm());
  if (!algorithm.has_value()) {
    return kernels::Error(absl::StatusCode::kUnimplemented, reason::kUnsupportedAlgorithm,
                          absl::StrCat("this server does not know algorithm number ", spec.algorithm()),
                          {{"algorithm", absl::StrCat(spec.algorithm())}});
  }
  result.algorithm = *algorithm;
  return kernels::ReductionPlan::Create(result);
}

absl::StatusOr<ElementLayout> LayoutFromProto(v1::ElementType type, const v1::MatrixShape* shape) {
  const auto element_type = ElementTypeFromProto(type);
  if (!element_type.has_value()) return BadHeader("element_type", "is missing or unknown");
  if (shape == nullptr) return ElementLayout{.type = *element_type, .shape = {}};
  if (absl::Status status = CheckAllKnown("matrix_shape", *shape); !status.ok()) return status;
  const auto in_range = [](std::uint32_t n) { return n >= 1 && n <= kernels::kMaxMatrixDimension; };
  if (!in_range(shape->rows()) || !in_range(shape->columns())) {
    return BadHeader("matrix_shape",
                     absl::StrCat("must have 1 to ", kernels::kMaxMatrixDimension, " rows and columns"),
                     kernels::kMaxMatrixDimension);
  }
  return ElementLayout{.type = *element_type, .shape = {.rows = shape->rows(), .columns = shape->columns()}};
}

absl::Status CheckNoStream(bool has_count, bool with_crc32c) {
  if (has_count) {
    return BadHeader("expected_element_count", "must not be set where there is a reference");
  }
  if (with_crc32c) return BadHeader("with_crc32c", "must not be set where there is a reference");
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const NamedMemory>> FindReferenced(const MemoryRegistry& memories,
                                                                  const v1::ArrayReference& reference,
                                                                  const kernels::ReductionPlan& reduction,
                                                                  const Clock& clock) {
  absl::StatusOr<std::shared_ptr<const NamedMemory>> memory = memories.Find(reference.token(), clock());
  if (!memory.ok()) return memory;
  if (absl::Status status = CheckReference(reference, **memory, reduction); !status.ok()) return status;
  return NamedMemory::Use(*std::move(memory), clock);
}

absl::StatusOr<ResultsMemory> FindResultsMemory(const MemoryRegistry& memories,
                                                const v1::SegmentResultsReference& reference,
                                                std::size_t row_bytes, std::uint64_t segment_count,
                                                const Clock& clock) {
  constexpr const char* kToken = "results_reference.token";
  absl::StatusOr<std::shared_ptr<const NamedMemory>> memory =
      memories.Find(reference.token(), clock(), kToken);
  if (!memory.ok()) return memory.status();
  const std::uint64_t bytes = (*memory)->writable().size();
  if (bytes == 0) {
    return BadHeader(kToken, "must be of memory that was registered as writable");
  }
  // The host's memory begins with a page, but an array on a GPU may begin anywhere.
  const auto begin = reinterpret_cast<std::uintptr_t>((*memory)->writable().data());
  if ((begin + reference.byte_offset()) % sizeof(std::uint64_t) != 0) {
    return BadHeader("results_reference.byte_offset", "must be a multiple of 8");
  }
  if (reference.byte_offset() > bytes || segment_count > (bytes - reference.byte_offset()) / row_bytes) {
    return BadHeader("results_reference.byte_offset",
                     absl::StrCat("leaves no room in the memory's ", bytes, " bytes for the results of ",
                                  segment_count, " segments with ", row_bytes, " bytes each"));
  }
  std::optional<ResultsMemory> results = ResultsMemory::Take(
      NamedMemory::Use(*std::move(memory), clock), reference.byte_offset(), row_bytes, segment_count);
  if (results.has_value()) return *std::move(results);
  return kernels::Error(absl::StatusCode::kResourceExhausted, reason::kTooManyReductions,
                        "results of another call are written there, perhaps still of one that has ended",
                        {{"field", kToken}, {"retry_ms", "10"}});
}

absl::Status FillReduction(const kernels::PartialState& state, bool return_state, v1::Reduction* reduction) {
  const std::vector<std::string>& names = state.reduction().spec().operators;
  absl::Status first_error;
  bool has_value = return_state;  // a state is a result, too
  for (std::size_t op = 0; op < names.size(); ++op) {
    v1::OperatorResult& result = *reduction->add_results();
    result.set_operator_(OperatorByName(names[op]));
    const absl::StatusOr<kernels::OperatorValue> value = state.Finish(op);
    if (value.ok()) {
      FillValue(*value, &result);
      has_value = true;
      continue;
    }
    if (!IsMissingValue(value.status())) return value.status();
    if (first_error.ok()) first_error = value.status();
    v1::ResultError& error = *result.mutable_error();
    error.set_code(static_cast<int>(value.status().code()));
    error.set_reason(kernels::ErrorReason(value.status()));
    error.set_message(std::string(value.status().message()));
  }
  if (!has_value) return first_error;
  reduction->set_element_count(state.element_count());
  if (return_state) *reduction->mutable_state() = StateToProto(state);
  return absl::OkStatus();
}

}  // namespace warpfold::server
