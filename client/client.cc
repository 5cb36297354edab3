// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/client.h"

#include <algorithm>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "client/calls/advice.h"
#include "client/calls/argument_check.h"
#include "client/calls/chunk_stream.h"
#include "client/calls/reducer.h"
#include "client/calls/resident.h"
#include "client/calls/retry.h"
#include "client/calls/shares.h"
#include "client/calls/translate.h"
#include "client/calls/wire.h"
#include "client/calls/writer_state.h"
#include "client/connections/connection.h"
#include "client/connections/grpc_process.h"
#include "client/connections/status.h"
#include "client/connections/target_names.h"
#include "client/connections/targets.h"
#include "proto/error_reasons.h"
#include "proto/shared/steady_time.h"

namespace warpfold {
namespace {

constexpr int kMaxConnections = 64;

// Seeding a generator costs a microsecond, so only arrays that are sent in several parts get a name.
std::string RandomName() { return absl::StrCat(absl::Hex(absl::Uniform<std::uint64_t>(absl::BitGen()))); }

// Calls the only target, as often as a call may be tried. once(connection, deadline, interrupts) is an
// attempt.
template <typename Once>
auto AskTheOne(Targets& targets, const ClientOptions& client_options, const CallOptions& options,
               const Once& once) {
  const absl::Time deadline = DeadlineOf(options);
  RetryLoop retry(targets, 0, client_options, deadline, InterruptsOf(options));
  return retry.Run([&](const Connection& connection, const Interrupts& interrupts, Attempt&) {
    return once(connection, deadline, interrupts);
  });
}

}  // namespace

Client::Client(std::vector<std::string> targets, ClientOptions options)
    : options_(std::move(options)), targets_status_(CheckTargets(targets)) {
  if (targets_status_.ok()) targets_status_ = KeepGrpcRunning();
  options_.connections = std::clamp(options_.connections, 1, kMaxConnections);
  // Nobody listens there.
  if (!targets_status_.ok()) targets = {"unix:/unused"};
  targets_ = std::make_unique<Targets>(std::move(targets), options_);
}

Client::~Client() = default;

absl::StatusOr<Reduction> Client::ReduceSource(const Spec& spec, ElementType type, std::uint64_t byte_count,
                                               const SliceSource& source, const CallOptions& options) {
  const absl::Time start = SteadyNow();
  if (absl::Status status = CheckCall(options); !status.ok()) return status;
  absl::StatusOr<v1::ReductionSpec> proto_spec = ToProto(spec, type);
  if (!proto_spec.ok()) return proto_spec.status();
  const std::uint64_t element_bytes = ElementBytes(spec, type);
  if (absl::Status status = CheckWhole(byte_count, element_bytes); !status.ok()) return status;
  const bool canonical =
      proto_spec->algorithm() == v1::ALGORITHM_UNSPECIFIED || proto_spec->algorithm() == v1::ALGORITHM_AUTO;
  if (options.streams > 1 && !canonical) {
    return BadHeader("streams must be 1 where an algorithm is named: its states do not merge", "streams");
  }

  ReduceJob job = JobOf(*proto_spec, source, options);
  job.element_bytes = element_bytes;
  job.element_count = byte_count / element_bytes;
  const bool planned = options.streams == 0 && canonical;
  const absl::StatusOr<TransferPlan> plan =
      planned ? PlanTransfer(*targets_, byte_count, most_streams(), job.deadline, InterruptsOf(options))
              : PlanTransferOver(std::max(options.streams, 1));
  if (!plan.ok()) return plan.status();
  if (options.chunk_bytes == 0) job.chunk_bytes = plan->chunk_bytes;
  if (plan->streams != 1) job.array = RandomName();
  const std::vector<Stripe> shares = CutIntoShares(job.element_count, element_bytes, plan->streams);
  const absl::StatusOr<v1::Reduction> proto = plan->streams == 1 || shares.size() == 1
                                                  ? ReduceOnOneStream(job)
                                                  : ReduceInShares(job, shares, plan->streams);
  if (!proto.ok()) return proto.status();
  absl::StatusOr<Reduction> reduction = FromProto(*proto);
  if (reduction.ok()) reduction->timings.total = SteadyNow() - start;
  return reduction;
}

absl::StatusOr<Reduction> Client::ReduceBytes(const Spec& spec, ElementType type,
                                              std::span<const std::byte> data, const CallOptions& options) {
  return ReduceSource(spec, type, data.size(), SourceOf(data), options);
}

absl::StatusOr<Reduction> Client::ReduceGenerated(const Spec& spec, ElementType type,
                                                  std::uint64_t byte_count, const Generator& generator,
                                                  const CallOptions& options) {
  if (!generator) return NoGenerator();
  return ReduceSource(spec, type, byte_count, SourceOf(generator), options);
}

absl::StatusOr<Writer> Client::OpenWriter(const Spec& spec, ElementType type, const CallOptions& options) {
  if (absl::Status status = CheckCall(options); !status.ok()) return status;
  absl::StatusOr<v1::ReductionSpec> proto_spec = ToProto(spec, type);
  if (!proto_spec.ok()) return proto_spec.status();
  if (options.streams != 0 && options.streams != 1) {
    return BadHeader("a Writer has one stream", "streams");
  }
  v1::ReduceHeader header;
  *header.mutable_spec() = *std::move(proto_spec);
  header.set_request_id(options.request_id);
  auto state = std::make_unique<Writer::State>(*targets_, options_, options, ElementBytes(spec, type));
  if (absl::Status status = state->Open(header); !status.ok()) return status;
  return Writer(std::move(state));
}

ReduceJob Client::JobOf(const v1::ReductionSpec& spec, const SliceSource& source,
                        const CallOptions& options) const {
  return {.spec = spec,
          .chunk_bytes = options.chunk_bytes != 0 ? options.chunk_bytes : kChunkBytes,
          .source = source,
          .targets = *targets_,
          .client_options = options_,
          .options = options,
          .deadline = DeadlineOf(options)};
}

int Client::most_streams() const { return options_.connections * static_cast<int>(targets_->count()); }

absl::Status Client::CheckCall(const CallOptions& options) const {
  if (!targets_status_.ok()) return targets_status_;
  return CheckCallOptions(options, most_streams());
}

absl::Status Client::CheckCallOfOneTarget(const CallOptions& options) const {
  if (absl::Status status = CheckCall(options); !status.ok()) return status;
  if (targets_->count() == 1) return absl::OkStatus();
  return BadHeader("arrays that stay with a server need a client of one target");
}

absl::StatusOr<Reduction> Client::ReduceReference(const Spec& spec, ElementType type,
                                                  const ArrayReference& reference,
                                                  const CallOptions& options) {
  const absl::Time start = SteadyNow();
  if (absl::Status status = CheckCallOfOneTarget(options); !status.ok()) return status;
  const absl::StatusOr<v1::ReductionSpec> proto_spec = ToProto(spec, type);
  if (!proto_spec.ok()) return proto_spec.status();
  const auto once = [&](const Connection& connection, absl::Time deadline, const Interrupts& interrupts) {
    return SendReference(*proto_spec, ElementBytes(spec, type), reference, options, connection, deadline,
                         interrupts);
  };
  const absl::StatusOr<v1::Reduction> proto = AskTheOne(*targets_, options_, options, once);
  if (!proto.ok()) return proto.status();
  absl::StatusOr<Reduction> reduction = FromProto(*proto);
  if (reduction.ok()) reduction->timings.total = SteadyNow() - start;
  return reduction;
}

absl::StatusOr<ResidentArray> Client::PutBytes(ElementType type, std::optional<MatrixShape> matrix_shape,
                                               std::span<const std::byte> data, const PutOptions& put,
                                               const CallOptions& options) {
  return PutSource(type, matrix_shape, data.size(), SourceOf(data), put, options);
}

absl::StatusOr<ResidentArray> Client::PutGenerated(ElementType type, std::optional<MatrixShape> matrix_shape,
                                                   std::uint64_t byte_count, const Generator& generator,
                                                   const PutOptions& put, const CallOptions& options) {
  if (!generator) return NoGenerator();
  return PutSource(type, matrix_shape, byte_count, SourceOf(generator), put, options);
}

absl::StatusOr<ResidentArray> Client::PutSource(ElementType type, std::optional<MatrixShape> matrix_shape,
                                                std::uint64_t byte_count, const SliceSource& source,
                                                const PutOptions& put, const CallOptions& options) {
  if (absl::Status status = CheckCallOfOneTarget(options); !status.ok()) return status;
  if (absl::Status status = CheckOwner(put.owner); !status.ok()) return status;
  const Spec spec = {.matrix_shape = matrix_shape};
  const absl::StatusOr<v1::ReductionSpec> proto_spec = ToProto(spec, type);
  if (!proto_spec.ok()) return proto_spec.status();
  const std::uint64_t element_bytes = ElementBytes(spec, type);
  if (absl::Status status = CheckWhole(byte_count, element_bytes); !status.ok()) return status;
  if (put.time_to_live < absl::ZeroDuration()) {
    return BadHeader("time_to_live must be 0 or more seconds", "time_to_live_seconds");
  }
  ReduceJob job = JobOf(*proto_spec, source, options);
  job.element_bytes = element_bytes;
  job.element_count = byte_count / element_bytes;
  const auto once = [&](const Connection& connection, const Interrupts& interrupts, Attempt& attempt) {
    return SendArray(job, put, connection, interrupts, &attempt.may_be_done);
  };
  return RunJob(job, 0, once);
}

absl::StatusOr<std::vector<ResidentArray>> Client::ListArrays(const std::string& owner,
                                                              const CallOptions& options) {
  if (absl::Status status = CheckCallOfOneTarget(options); !status.ok()) return status;
  if (absl::Status status = CheckOwner(owner); !status.ok()) return status;
  const auto once = [&](const Connection& connection, absl::Time deadline, const Interrupts& interrupts) {
    return AskForArrays(owner, connection, deadline, interrupts);
  };
  return AskTheOne(*targets_, options_, options, once);
}

absl::StatusOr<ResidentArray> Client::GetArray(const std::string& token, const CallOptions& options) {
  if (absl::Status status = CheckCallOfOneTarget(options); !status.ok()) return status;
  const auto once = [&](const Connection& connection, absl::Time deadline, const Interrupts& interrupts) {
    return AskForArray(token, connection, deadline, interrupts);
  };
  return AskTheOne(*targets_, options_, options, once);
}

absl::Status Client::DeleteArray(const std::string& token, const CallOptions& options) {
  if (absl::Status status = CheckCallOfOneTarget(options); !status.ok()) return status;
  bool may_be_done = false;
  const auto once = [&](const Connection& connection, absl::Time deadline, const Interrupts& interrupts) {
    absl::Status status = SendDelete(token, connection, deadline, interrupts);
    // The response to an earlier attempt may have been lost.
    if (may_be_done && absl::IsNotFound(status)) return absl::OkStatus();
    may_be_done = may_be_done || absl::IsUnavailable(status);
    return status;
  };
  return AskTheOne(*targets_, options_, options, once);
}

}  // namespace warpfold
