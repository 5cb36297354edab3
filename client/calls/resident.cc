// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/resident.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "client/calls/answer_check.h"
#include "client/calls/chunk_stream.h"
#include "client/calls/methods.h"
#include "client/calls/raw_call.h"
#include "client/calls/wire.h"
#include "client/connections/status.h"
#include "proto/element_type.h"
#include "proto/time_awake.h"
#include "warpfold/v1/arrays.pb.h"

namespace warpfold {
namespace {

constexpr char kPutMethod[] = "/warpfold.v1.ArrayService/PutArray";
constexpr char kGetMethod[] = "/warpfold.v1.ArrayService/GetArray";
constexpr char kListMethod[] = "/warpfold.v1.ArrayService/ListArrays";
constexpr char kDeleteMethod[] = "/warpfold.v1.ArrayService/DeleteArray";

v1::PutArrayRequest PutHeaderOf(const ReduceJob& job, const PutOptions& put) {
  v1::PutArrayRequest request;
  v1::PutArrayHeader& header = *request.mutable_header();
  header.set_element_type(job.spec.element_type());
  if (job.spec.has_matrix_shape()) *header.mutable_matrix_shape() = job.spec.matrix_shape();
  header.set_element_count(job.element_count);
  // Whole seconds, and never fewer than were requested.
  const double seconds = std::clamp(std::ceil(absl::ToDoubleSeconds(put.time_to_live)), 0.0, 4e9);
  header.set_time_to_live_seconds(static_cast<std::uint32_t>(seconds));
  header.set_owner(put.owner);
  header.set_request_id(job.options.request_id);
  header.set_with_crc32c(job.options.checksum);
  return request;
}

// A type of another version may have no name in this one.
bool HasKnownType(const v1::ResidentArray& proto) {
  return proto.element_type() != v1::ELEMENT_TYPE_UNSPECIFIED &&
         v1::ElementType_IsValid(proto.element_type());
}

bool IsSame(const v1::MatrixShape& a, const v1::MatrixShape& b) {
  return a.rows() == b.rows() && a.columns() == b.columns();
}

// Whether the number of bytes is that of elements of this type and shape.
bool IsWhole(const v1::ResidentArray& proto) {
  if (!HasKnownType(proto)) return false;
  const v1::MatrixShape& shape = proto.matrix_shape();
  const std::uint64_t entries = proto.has_matrix_shape() ? std::uint64_t{shape.rows()} * shape.columns() : 1;
  std::uint64_t element_bytes = ElementTypeBytes(static_cast<ElementType>(proto.element_type()));
  if (__builtin_mul_overflow(element_bytes, entries, &element_bytes)) return false;
  return element_bytes > 0 && proto.byte_count() % element_bytes == 0 &&
         proto.byte_count() / element_bytes == proto.element_count();
}

ResidentArray FromProto(const v1::ResidentArray& proto) {
  ResidentArray array;
  array.id = proto.id();
  array.owner = proto.owner();
  array.type = static_cast<ElementType>(proto.element_type());
  if (proto.has_matrix_shape()) {
    array.matrix_shape = {proto.matrix_shape().rows(), proto.matrix_shape().columns()};
  }
  array.element_count = proto.element_count();
  array.byte_count = proto.byte_count();
  array.age = absl::Seconds(proto.age_seconds());
  array.expires_in = absl::Seconds(proto.expires_in_seconds());
  return array;
}

}  // namespace

absl::StatusOr<ResidentArray> SendArray(const ReduceJob& job, const PutOptions& put,
                                        const Connection& connection, const Interrupts& interrupts,
                                        bool* may_be_kept) {
  LentMemory memory(connection);  // outlives the call
  ChunkStream stream(connection, job.deadline, interrupts, job.options, kPutMethod, PutHeaderOf(job, put));
  const std::uint64_t byte_count = job.element_count * job.element_bytes;
  for (std::uint64_t offset = 0; offset < byte_count && stream.AwaitAdmission();) {
    if (!stream.Send(NextChunk(job, &offset, byte_count, memory))) break;
  }
  stream.Commit(job.element_bytes);
  absl::StatusOr<grpc::ByteBuffer> answer = stream.Finish();
  *may_be_kept = stream.took_messages();
  // Only a server that says DRAINING has not kept it.
  if (*may_be_kept && stream.was_dropped()) {
    return absl::UnavailableError("the server ended the call without an answer, and may have kept the array");
  }
  if (!answer.ok()) return BlameSource(answer.status(), job.source);
  v1::PutArrayResponse response;
  if (absl::Status status = ParseAnswer(*std::move(answer), response); !status.ok()) return status;
  if (response.token().empty() || response.array().element_count() != job.element_count ||
      response.array().byte_count() != byte_count ||
      response.array().element_type() != job.spec.element_type() ||
      response.array().has_matrix_shape() != job.spec.has_matrix_shape() ||
      !IsSame(response.array().matrix_shape(), job.spec.matrix_shape())) {
    return MakeMismatch("it is of another array");
  }
  ResidentArray array = FromProto(response.array());
  array.token = response.token();
  return array;
}

absl::StatusOr<v1::Reduction> SendReference(const v1::ReductionSpec& spec, std::uint64_t element_bytes,
                                            const ArrayReference& reference, const CallOptions& options,
                                            const Connection& connection, absl::Time deadline,
                                            const Interrupts& interrupts) {
  v1::ReduceRequest request;
  v1::ReduceHeader& header = *request.mutable_header();
  *header.mutable_spec() = spec;
  header.set_request_id(options.request_id);
  header.mutable_reference()->set_token(reference.token);
  header.mutable_reference()->set_byte_offset(reference.byte_offset);
  header.mutable_reference()->set_element_count(reference.element_count);
  CallScope scope(connection, deadline, interrupts);
  v1::ReduceResponse response;
  const std::uint64_t array_bytes = reference.element_count * element_bytes;
  absl::Status status = CallUnary(scope, kReduceMethod, request, response,
                                  absl::FromChrono(TimeAwake(array_bytes)), RawCall::Load::kArray);
  if (!status.ok()) return status;
  status = CheckReduction(spec, {0, reference.element_count}, /*state=*/false, response.reduction());
  if (!status.ok()) return status;
  return std::move(*response.mutable_reduction());
}

absl::StatusOr<std::vector<ResidentArray>> AskForArrays(const std::string& owner,
                                                        const Connection& connection, absl::Time deadline,
                                                        const Interrupts& interrupts) {
  v1::ListArraysRequest request;
  request.set_owner(owner);
  CallScope scope(connection, deadline, interrupts);
  v1::ListArraysResponse response;
  if (absl::Status status = CallUnary(scope, kListMethod, request, response); !status.ok()) return status;
  std::vector<ResidentArray> arrays;
  for (const v1::ResidentArray& array : response.arrays()) {
    if (!IsWhole(array)) return MakeMismatch("an array of an unknown type, or of another size than it says");
    arrays.push_back(FromProto(array));
  }
  return arrays;
}

absl::StatusOr<ResidentArray> AskForArray(const std::string& token, const Connection& connection,
                                          absl::Time deadline, const Interrupts& interrupts) {
  v1::GetArrayRequest request;
  request.set_token(token);
  CallScope scope(connection, deadline, interrupts);
  v1::GetArrayResponse response;
  if (absl::Status status = CallUnary(scope, kGetMethod, request, response); !status.ok()) return status;
  if (!response.has_array() || !IsWhole(response.array())) {
    return MakeMismatch("no array, or one of an unknown type or of another size than it says");
  }
  ResidentArray array = FromProto(response.array());
  array.token = token;
  return array;
}

absl::Status SendDelete(const std::string& token, const Connection& connection, absl::Time deadline,
                        const Interrupts& interrupts) {
  v1::DeleteArrayRequest request;
  request.set_token(token);
  CallScope scope(connection, deadline, interrupts);
  v1::DeleteArrayResponse response;
  return CallUnary(scope, kDeleteMethod, request, response);
}

}  // namespace warpfold
