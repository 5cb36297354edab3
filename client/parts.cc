// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Client's calls about parts of an array that its caller has cut.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/calls/argument_check.h"
#include "client/calls/chunk_stream.h"
#include "client/calls/merge.h"
#include "client/calls/reducer.h"
#include "client/calls/retry.h"
#include "client/calls/translate.h"
#include "client/calls/wire.h"
#include "client/client.h"
#include "client/connections/status.h"
#include "client/connections/targets.h"
#include "proto/error_reasons.h"
#include "proto/shared/steady_time.h"

namespace warpfold {
namespace {

using Pieces = std::span<const std::span<const std::byte>>;

absl::Status BadState(absl::string_view what) {
  return RefuseCall(absl::StatusCode::kInvalidArgument, reason::kBadState, what);
}

// Bytes [offset, offset + size) of the pieces: from their place where one piece has them all. `ends` has the
// offset at which each piece ends.
grpc::Slice SliceOfPieces(Pieces pieces, std::span<const std::uint64_t> ends, std::uint64_t offset,
                          std::size_t size, LentMemory& memory) {
  auto piece = static_cast<std::size_t>(std::ranges::upper_bound(ends, offset) - ends.begin());
  offset -= ends[piece] - pieces[piece].size();
  if (pieces[piece].size() - offset >= size) return memory.Lend(pieces[piece].subspan(offset, size));
  OwnedChunk chunk = std::make_unique_for_overwrite<std::byte[]>(size);
  for (std::size_t filled = 0; filled < size; ++piece, offset = 0) {
    const std::span<const std::byte> rest = pieces[piece].subspan(offset);
    const std::size_t part = std::min(rest.size(), size - filled);
    std::memcpy(chunk.get() + filled, rest.data(), part);
    filled += part;
  }
  return SliceOf(std::move(chunk), size);
}

PartialState StateOf(const v1::Reduction& reduction) {
  const v1::PartialState& state = reduction.state();
  return PartialState{state.first_element(), state.element_count(), state.SerializeAsString()};
}

}  // namespace

absl::StatusOr<PartialState> Client::ReducePart(const Spec& spec, ElementType type,
                                                std::uint64_t first_element, Pieces pieces,
                                                const CallOptions& options) {
  if (absl::Status status = CheckCall(options); !status.ok()) return status;
  const absl::StatusOr<v1::ReductionSpec> proto_spec = ToProto(spec, type);
  if (!proto_spec.ok()) return proto_spec.status();
  if (options.streams != 0 && options.streams != 1) {
    return BadHeader("a part of an array has one stream", "streams");
  }
  std::vector<std::span<const std::byte>> filled;
  std::vector<std::uint64_t> ends;  // of those
  std::uint64_t byte_count = 0;
  for (const std::span<const std::byte> piece : pieces) {
    if (piece.empty()) continue;
    byte_count += piece.size();
    filled.push_back(piece);
    ends.push_back(byte_count);
  }
  const std::uint64_t element_bytes = ElementBytes(spec, type);
  if (absl::Status status = CheckWhole(byte_count, element_bytes); !status.ok()) return status;
  std::uint64_t first_byte = 0;
  std::uint64_t end_byte = 0;
  if (__builtin_mul_overflow(first_element, element_bytes, &first_byte) ||
      __builtin_add_overflow(first_byte, byte_count, &end_byte)) {
    return BadHeader("first_element: the part would end beyond what 64 bits can count", "first_element");
  }
  const auto slice = [&filled, &ends, first_byte](std::uint64_t offset, std::size_t size,
                                                  LentMemory& memory) {
    return SliceOfPieces(filled, ends, offset - first_byte, size, memory);
  };
  const SliceSource source = {slice, [&filled] { return std::ranges::all_of(filled, CanBeRead); }};
  const Stripe stripe = {first_element, byte_count / element_bytes};
  ReduceJob job = JobOf(*proto_spec, source, options);
  job.element_bytes = element_bytes;
  job.element_count = end_byte / element_bytes;
  const auto send = [&](const Connection& connection, const Interrupts& interrupts, Attempt&) {
    return SendStripe(job, stripe, /*return_state=*/true, connection, interrupts);
  };
  // Other parts may have been reduced, for which this one is needed.
  const absl::StatusOr<v1::Reduction> reduction = RunJob(job, targets_->Next(), send, {.patient = true});
  if (!reduction.ok()) return reduction.status();
  return StateOf(*reduction);
}

absl::StatusOr<v1::Reduction> Client::MergeAll(const Spec& spec, ElementType type,
                                               std::span<const PartialState> states,
                                               const CallOptions& options, bool return_state) {
  if (absl::Status status = CheckCall(options); !status.ok()) return status;
  const absl::StatusOr<v1::ReductionSpec> proto_spec = ToProto(spec, type);
  if (!proto_spec.ok()) return proto_spec.status();
  if (states.empty()) return BadHeader("states: there is none to merge", "states");
  std::vector<v1::PartialState> protos(states.size());
  std::uint64_t end = 0;  // of the states so far
  for (std::size_t i = 0; i < states.size(); ++i) {
    // No bytes at all would be the state of an empty range: nobody has filled this one.
    const bool readable = !states[i].bytes.empty() && protos[i].ParseFromString(states[i].bytes);
    if (!readable || protos[i].first_element() != states[i].first_element ||
        protos[i].element_count() != states[i].element_count) {
      return BadState(absl::StrCat("states: number ", i, " is not one"));
    }
    // A server checks the same, but only for states that go to it in one call. For it, too, those of no
    // elements do not count, except for the first: who cuts an array into equal parts may have some beyond
    // its end.
    if (i == 0) end = protos[i].first_element();
    if (protos[i].first_element() != end && protos[i].element_count() > 0) {
      return BadState(absl::StrCat("states: number ", i, " begins at element ", protos[i].first_element(),
                                   ", not where the one before it ends"));
    }
    end += protos[i].element_count();
  }
  const SliceSource no_data;
  return MergeStates(JobOf(*proto_spec, no_data, options), std::move(protos), return_state);
}

absl::StatusOr<Reduction> Client::Merge(const Spec& spec, ElementType type,
                                        std::span<const PartialState> states, const CallOptions& options) {
  const absl::Time start = SteadyNow();
  const absl::StatusOr<v1::Reduction> merged = MergeAll(spec, type, states, options, /*return_state=*/false);
  if (!merged.ok()) return merged.status();
  absl::StatusOr<Reduction> reduction = FromProto(*merged);
  if (reduction.ok()) reduction->timings.total = SteadyNow() - start;
  return reduction;
}

absl::StatusOr<PartialState> Client::MergeToState(const Spec& spec, ElementType type,
                                                  std::span<const PartialState> states,
                                                  const CallOptions& options) {
  const absl::StatusOr<v1::Reduction> merged = MergeAll(spec, type, states, options, /*return_state=*/true);
  if (!merged.ok()) return merged.status();
  return StateOf(*merged);
}

}  // namespace warpfold
