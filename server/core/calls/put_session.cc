// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/calls/put_session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "kernels/geometry.h"
#include "server/core/wire/messages.h"
#include "server/core/wire/operator_names.h"

namespace warpfold::server {
namespace {

v1::ResidentArray ToProto(const ResidentArrays::Info& info) {
  v1::ResidentArray array;
  array.set_id(info.id);
  array.set_owner(info.request.owner);
  array.set_element_type(ElementTypeToProto(info.request.layout.type));
  if (const kernels::ElementShape shape = info.request.layout.shape; shape.is_matrix()) {
    array.mutable_matrix_shape()->set_rows(shape.rows);
    array.mutable_matrix_shape()->set_columns(shape.columns);
  }
  array.set_element_count(info.request.element_count);
  array.set_byte_count(info.request.byte_count);
  array.set_age_seconds(absl::ToDoubleSeconds(info.age));
  array.set_expires_in_seconds(absl::ToDoubleSeconds(info.expires_in));
  return array;
}

}  // namespace

absl::StatusOr<PutSession::StreamMessage> PutSession::Parse(ByteSlices message) {
  absl::StatusOr<ParsedRequest<v1::PutArrayHeader>> request = ParsePutArrayRequest(message);
  if (!request.ok()) return request.status();
  return ToStreamMessage(*std::move(request), &parsed_header_);
}

absl::Status PutSession::Begin() {
  if (absl::Status status = CheckText("request_id", parsed_header_.request_id()); !status.ok()) return status;
  if (absl::Status status = CheckText("owner", parsed_header_.owner()); !status.ok()) return status;
  header_ = std::move(parsed_header_);
  const absl::StatusOr<ElementLayout> layout =
      LayoutFromProto(header_.element_type(), header_.has_matrix_shape() ? &header_.matrix_shape() : nullptr);
  if (!layout.ok()) return layout.status();
  type_ = layout->type;
  const std::uint64_t element_bytes = ElementTypeBytes(layout->type) * std::uint64_t{layout->shape.entries()};
  const std::uint64_t max_bytes = service_.limits.max_stream_bytes;
  if (header_.element_count() > max_bytes / element_bytes) return ArrayTooLarge(max_bytes);
  absl::StatusOr<std::shared_ptr<const NamedMemory>> array =
      residents_.Reserve({.party = slots_.party,
                          .owner = header_.owner(),
                          .layout = *layout,
                          .element_count = header_.element_count(),
                          .byte_count = header_.element_count() * element_bytes,
                          .time_to_live = absl::Seconds(header_.time_to_live_seconds())},
                         service_.clock());
  if (!array.ok()) return array.status();
  array_ = *std::move(array);
  writer_.emplace(slots_, array_, listener_);
  sink_ = &*writer_;
  incoming_.emplace(*writer_, IncomingArray::Announced{.element_bytes = element_bytes,
                                                       .max_bytes = max_bytes,
                                                       .count = header_.element_count(),
                                                       .count_field = "element_count",
                                                       .with_crc32c = header_.with_crc32c()});
  return absl::OkStatus();
}

absl::StatusOr<std::string> PutSession::Response() {
  const absl::Time now = service_.clock();
  v1::PutArrayResponse response;
  token_ = residents_.Publish(array_, now);
  response.set_token(token_);
  const absl::StatusOr<ResidentArrays::Info> info = residents_.Find(response.token(), now);
  if (!info.ok()) return info.status();
  *response.mutable_array() = ToProto(*info);
  return response.SerializeAsString();
}

void PutSession::Describe(absl::Time end, CallRecord* record) const {
  ArraySession::Describe(end, record);
  record->put_type = type_;
}

void PutSession::OnNotDelivered() {
  if (!token_.empty()) residents_.Delete(token_, service_.clock()).IgnoreError();
}

void PutSession::Release() {
  ArraySession::Release();
  // A client may take a long time to read the answer.
  v1::PutArrayHeader().Swap(&parsed_header_);
  v1::PutArrayHeader().Swap(&header_);
  // It is not destroyed: this may be the writer's own call of its listener.
  if (writer_.has_value()) writer_->Release();
  array_.reset();
}

absl::StatusOr<v1::GetArrayResponse> GetArray(const Service& service, const v1::GetArrayRequest& request) {
  const absl::StatusOr<ResidentArrays::Info> info = service.residents.Find(request.token(), service.clock());
  if (!info.ok()) return info.status();
  v1::GetArrayResponse response;
  *response.mutable_array() = ToProto(*info);
  return response;
}

absl::StatusOr<v1::ListArraysResponse> ListArrays(Service& service, const v1::ListArraysRequest& request) {
  if (absl::Status status = CheckText("owner", request.owner()); !status.ok()) return status;
  v1::ListArraysResponse response;
  for (const ResidentArrays::Info& info : service.residents.List(request.owner(), service.clock())) {
    *response.add_arrays() = ToProto(info);
  }
  const ResidentArrays::Room room = service.residents.room();
  response.set_capacity_bytes(room.bytes);
  response.set_free_bytes(room.free_bytes);
  response.set_largest_free_bytes(room.largest_free_bytes);
  return response;
}

absl::Status DeleteArray(Service& service, const v1::DeleteArrayRequest& request) {
  return service.residents.Delete(request.token(), service.clock());
}

}  // namespace warpfold::server
