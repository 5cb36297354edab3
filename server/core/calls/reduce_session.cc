// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/calls/reduce_session.h"

#include <google/protobuf/arena.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"
#include "server/core/bad_request.h"
#include "server/core/slots/array_reducer.h"
#include "server/core/slots/memory_reducer.h"
#include "server/core/wire/messages.h"

namespace warpfold::server {
namespace {

// The state of a named algorithm is not canonical: it must be that of the whole array, and must not be sent.
absl::Status CheckNoStripe(const v1::ReduceHeader& header) {
  const auto refuse = [](const char* field, absl::string_view what) {
    return kernels::Error(absl::StatusCode::kInvalidArgument, reason::kBadHeader,
                          absl::StrCat(field, what, " where an algorithm is named"), {{"field", field}});
  };
  if (header.first_element() != 0) return refuse("first_element", " must be 0");
  if (header.return_state()) return refuse("return_state", " must not be set");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ReduceSession::StreamMessage> ReduceSession::Parse(ByteSlices message) {
  absl::StatusOr<ParsedRequest<v1::ReduceHeader>> request = ParseReduceRequest(message);
  if (!request.ok()) return request.status();
  StreamMessage parsed = ToStreamMessage(*std::move(request), &parsed_header_);
  if (parsed.kind == MessageKind::kHeader && parsed_header_.has_reference()) {
    parsed.kind = MessageKind::kReference;
  }
  return parsed;
}

absl::StatusOr<ReduceSession::Need> ReduceSession::OnArray(Message message, PlanCache& plans) {
  std::optional<PlainArray> plain = ReadPlainArray(message.slices);
  const kernels::ReductionPlan* const known = plain.has_value() ? plans.Find(plain->spec) : nullptr;
  if (known != nullptr) {
    std::string request_id(plain->request_id);
    if (absl::Status status = CheckText("request_id", request_id); !status.ok()) return status;
    header_.set_request_id(std::move(request_id));
    whole_bytes_ = TotalBytes(plain->data);
    if (absl::Status status = BeginBy(*known); !status.ok()) return status;
    return TakeArray({.crc32c = {}, .data = std::move(plain->data), .owned = nullptr}, std::move(message));
  }
  absl::StatusOr<ParsedArray> array = ParseReduceArrayRequest(message.slices);
  if (!array.ok()) return array.status();
  parsed_header_.mutable_spec()->Swap(array->request.mutable_spec());
  parsed_header_.set_request_id(array->request.request_id());
  whole_bytes_ = TotalBytes(array->data.data);
  if (absl::Status status = Begin(); !status.ok()) return status;
  if (plain.has_value()) plans.Keep(plain->spec, reducer_->state().reduction());
  return TakeArray(std::move(array->data), std::move(message));
}

absl::StatusOr<ReduceSession::Need> ReduceSession::TakeArray(ParsedChunk data, Message message) {
  const std::uint64_t element_bytes = reducer_->state().reduction().element_bytes();
  if (*whole_bytes_ % element_bytes != 0) {
    return kernels::Error(
        absl::StatusCode::kInvalidArgument, reason::kBadMessage,
        absl::StrCat("data must be a whole number of elements of ", element_bytes, " bytes"),
        {{"field", "data"}});
  }
  const absl::StatusOr<bool> placed = incoming_->Take(std::move(data), std::move(message));
  if (!placed.ok()) return placed.status();
  return Finish();
}

absl::StatusOr<ArraySession::Need> ReduceArraySession::OnEnd() {
  return kernels::Error(absl::StatusCode::kInvalidArgument, reason::kBadMessage,
                        "the call ended before its request");
}

void ReduceSession::Release() {
  ArraySession::Release();
  // A client may take a long time to read the answer.
  v1::ReduceHeader().Swap(&parsed_header_);
  v1::ReduceHeader().Swap(&header_);
  // It is not destroyed: this may be the reducer's own call of its listener.
  if (reducer_ != nullptr) reducer_->Release();
}

absl::Status ReduceSession::Begin() {
  if (absl::Status status = CheckText("request_id", parsed_header_.request_id()); !status.ok()) return status;
  header_ = std::move(parsed_header_);
  const absl::StatusOr<kernels::ReductionPlan> reduction = PlanFromProto(header_.spec());
  return reduction.ok() ? BeginBy(*reduction) : reduction.status();
}

absl::Status ReduceSession::BeginBy(const kernels::ReductionPlan& reduction) {
  if (absl::Status status = CheckHeader(reduction); !status.ok()) return status;
  return header_.has_reference() ? BeginElsewhere(reduction) : BeginChunks(reduction);
}

absl::Status ReduceSession::BeginChunks(const kernels::ReductionPlan& reduction) {
  const std::uint64_t element_bytes = reduction.element_bytes();
  const bool has_count = header_.has_expected_element_count();
  const std::uint64_t count = header_.expected_element_count();
  const std::uint64_t max_bytes = service_.limits.max_stream_bytes;
  if (has_count && count > max_bytes / element_bytes) return ArrayTooLarge(max_bytes);
  auto reducer = std::make_unique<ArrayReducer>(
      slots_, service_.clock,
      ArrayReducer::Options{.reduction = reduction,
                            .first_element = header_.first_element(),
                            .crossover_bytes = CrossoverBytes(reduction),
                            .least_bytes = has_count ? count * element_bytes : whole_bytes_.value_or(0)},
      listener_);
  sink_ = reducer.get();
  incoming_.emplace(*reducer,
                    IncomingArray::Announced{.element_bytes = element_bytes,
                                             .max_bytes = max_bytes,
                                             .count = has_count ? std::optional(count) : std::nullopt,
                                             .with_crc32c = header_.with_crc32c()});
  reducer_ = std::move(reducer);
  return absl::OkStatus();
}

absl::Status ReduceSession::BeginElsewhere(const kernels::ReductionPlan& reduction) {
  if (absl::Status status = CheckNoStream(header_.has_expected_element_count(), header_.with_crc32c());
      !status.ok())
    return status;
  const v1::ArrayReference& reference = header_.reference();
  const std::uint64_t most_elements = kMaxArrayBytes / reduction.element_bytes();
  if (reference.element_count() > most_elements - header_.first_element()) {
    return BadHeader("reference.element_count",
                     absl::StrCat("is beyond the ", most_elements,
                                  " elements of the longest array, from first_element on"),
                     most_elements);
  }
  absl::StatusOr<std::shared_ptr<const NamedMemory>> memory =
      FindReferenced(service_.memories, reference, reduction, service_.clock);
  if (!memory.ok()) return memory.status();
  reducer_ =
      std::make_unique<MemoryReducer>(slots_, service_.clock,
                                      MemoryReducer::Options{.reduction = reduction,
                                                             .first_element = header_.first_element(),
                                                             .memory = *std::move(memory),
                                                             .byte_offset = reference.byte_offset(),
                                                             .element_count = reference.element_count(),
                                                             .crossover_bytes = CrossoverBytes(reduction)},
                                      listener_);
  // The device need not wait for the end of the stream.
  return reducer_->TryFinish().status();
}

std::uint64_t ReduceSession::array_bytes() const {
  if (incoming_.has_value() || reducer_ == nullptr) return ArraySession::array_bytes();
  return header_.reference().element_count() * reducer_->state().reduction().element_bytes();
}

void ReduceSession::Describe(absl::Time end, CallRecord* record) const {
  ArraySession::Describe(end, record);
  if (reducer_ == nullptr) return;
  record->reduction = reducer_->state().reduction();
  record->stages =
      StagesOf(reducer_->timings(), whole_bytes_.has_value() ? std::nullopt : ReceiveTimeUntil(end));
}

std::uint64_t ReduceSession::CrossoverBytes(const kernels::ReductionPlan& reduction) const {
  return std::max(service_.cpu_crossover_bytes, service_.crossovers.BytesFor(reduction));
}

absl::Status ReduceSession::CheckHeader(const kernels::ReductionPlan& reduction) const {
  const kernels::Algorithm algorithm = reduction.spec().algorithm;
  if (!service_.backend.Supports(algorithm)) {
    const std::string name = kernels::AlgorithmName(algorithm);
    return kernels::Error(absl::StatusCode::kUnimplemented, reason::kUnsupportedAlgorithm,
                          absl::StrCat("this device has no algorithm ", name), {{"algorithm", name}});
  }
  if (!reduction.canonical()) {
    if (absl::Status status = CheckNoStripe(header_); !status.ok()) return status;
  }
  return CheckPlace(reduction);
}

absl::Status ReduceSession::CheckPlace(const kernels::ReductionPlan& reduction) const {
  const std::uint64_t max_first = service_.limits.max_first_byte() / reduction.element_bytes();
  if (header_.first_element() % reduction.leaf_elements() == 0 && header_.first_element() <= max_first) {
    return absl::OkStatus();
  }
  const std::string must =
      absl::StrCat("must be a multiple of ", reduction.leaf_elements(), ", at most ", max_first);
  if (header_.first_element() <= max_first) return BadHeader("first_element", must);
  return BadHeader("first_element", must, max_first);
}

absl::StatusOr<std::string> ReduceSession::Response() {
  // An answer with one or a few values needs no other memory.
  alignas(std::max_align_t) std::array<char, 1024> block;
  google::protobuf::ArenaOptions options;
  options.initial_block = block.data();
  options.initial_block_size = block.size();
  google::protobuf::Arena arena(options);
  // ReduceResponse and ReduceArrayResponse have the same single field.
  auto& response = *google::protobuf::Arena::CreateMessage<v1::ReduceResponse>(&arena);
  v1::Reduction& reduction = *response.mutable_reduction();
  const bool with_state = header_.return_state();
  if (absl::Status status = FillReduction(reducer_->state(), with_state, &reduction); !status.ok()) {
    return status;
  }
  reduction.set_device(service_.backend.device());
  *reduction.mutable_timings() = TimingsToProto(reducer_->timings(), receive_time());
  return response.SerializeAsString();
}

}  // namespace warpfold::server
