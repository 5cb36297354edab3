// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/client.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/connection.h"
#include "client/grpc_process.h"
#include "client/reducer.h"
#include "client/retry.h"
#include "client/status.h"
#include "client/translate.h"
#include "client/wire.h"
#include "client/writer_state.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "warpfold/v1/reduction.grpc.pb.h"

namespace warpfold {
namespace {

constexpr int kMaxConnections = 64;
// No scalar is then cut by the end of a chunk, which generators rely on.
constexpr std::size_t kMinChunkBytes = 4096;

absl::Time DeadlineOf(const CallOptions& options) { return absl::Now() + options.timeout; }

grpc::Slice Generate(const Generator& generator, std::uint64_t offset, std::size_t size) {
  OwnedChunk chunk = std::make_unique_for_overwrite<std::byte[]>(size);
  generator(offset, std::span(chunk.get(), size));
  return SliceOf(std::move(chunk), size);
}

}  // namespace

Client::Client(std::string target, ClientOptions options) : options_(std::move(options)) {
  KeepGrpcRunning();
  options_.connections = std::clamp(options_.connections, 1, kMaxConnections);
  if (options_.connections > 1) LookUpCpuFrequency();
  for (int i = 0; i < options_.connections; ++i) {
    connections_.push_back(std::make_unique<Connection>(target, options_.credentials));
  }
}

Client::~Client() = default;

Connection& Client::NextConnection() { return *connections_[next_connection_++ % connections_.size()]; }

absl::StatusOr<Reduction> Client::ReduceSource(const Spec& spec, ElementType type, std::uint64_t byte_count,
                                               const SliceSource& source, const CallOptions& options) {
  const absl::Time start = absl::Now();
  absl::StatusOr<v1::ReductionSpec> proto_spec = ToProto(spec, type);
  if (!proto_spec.ok()) return proto_spec.status();
  const std::uint64_t element_bytes = ElementBytes(spec, type);
  if (byte_count % element_bytes != 0) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "BAD_HEADER",
        absl::StrCat(byte_count, " bytes are not a whole number of elements of ", element_bytes));
  }
  if (options.streams < 1 || options.streams > options_.connections) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "BAD_HEADER",
        absl::StrCat("streams must be 1 to the ", options_.connections, " connections of this client"));
  }
  if (!std::has_single_bit(options.chunk_bytes) || options.chunk_bytes < kMinChunkBytes) {
    return MakeError(absl::StatusCode::kInvalidArgument, "BAD_HEADER",
                     absl::StrCat("chunk_bytes must be a power of two, ", kMinChunkBytes, " or more"));
  }

  const bool canonical =
      proto_spec->algorithm() == v1::ALGORITHM_UNSPECIFIED || proto_spec->algorithm() == v1::ALGORITHM_AUTO;
  if (options.streams > 1 && !canonical) {
    return MakeError(absl::StatusCode::kInvalidArgument, "BAD_HEADER",
                     "streams must be 1 where an algorithm is named: its states do not merge");
  }

  const ReduceJob job = {*proto_spec, element_bytes, byte_count / element_bytes, source,
                         options_,    options,       DeadlineOf(options)};
  const absl::StatusOr<v1::Reduction> proto =
      options.streams == 1
          ? ReduceOnOneStream(job, NextConnection())
          : ReduceInStripes(job, std::span(connections_).first(static_cast<std::size_t>(options.streams)));
  if (!proto.ok()) return proto.status();
  absl::StatusOr<Reduction> reduction = FromProto(*proto);
  if (reduction.ok()) reduction->timings.total = absl::Now() - start;
  return reduction;
}

absl::StatusOr<Reduction> Client::ReduceBytes(const Spec& spec, ElementType type,
                                              std::span<const std::byte> data, const CallOptions& options) {
  const auto lend = [data](std::uint64_t offset, std::size_t size, LentMemory& memory) {
    return memory.Lend(data.subspan(offset, size));
  };
  return ReduceSource(spec, type, data.size(), {lend}, options);
}

absl::StatusOr<Reduction> Client::ReduceGenerated(const Spec& spec, ElementType type,
                                                  std::uint64_t byte_count, const Generator& generator,
                                                  const CallOptions& options) {
  const auto generate = [&generator](std::uint64_t offset, std::size_t size, LentMemory&) {
    return Generate(generator, offset, size);
  };
  return ReduceSource(spec, type, byte_count, {generate}, options);
}

absl::StatusOr<Writer> Client::OpenWriter(const Spec& spec, ElementType type, const CallOptions& options) {
  absl::StatusOr<v1::ReductionSpec> proto_spec = ToProto(spec, type);
  if (!proto_spec.ok()) return proto_spec.status();
  if (options.streams != 1) {
    return MakeError(absl::StatusCode::kInvalidArgument, "BAD_HEADER", "a Writer has one stream");
  }
  v1::ReduceHeader header;
  *header.mutable_spec() = *std::move(proto_spec);
  header.set_request_id(options.request_id);
  return Writer(std::make_unique<Writer::State>(NextConnection(), DeadlineOf(options), options, header,
                                                ElementBytes(spec, type)));
}

absl::StatusOr<v1::GetServerInfoResponse> Client::GetServerInfo(const CallOptions& options) {
  const absl::Time deadline = DeadlineOf(options);
  const Connection& connection = NextConnection();
  RetryLoop retry(options_, connection, deadline, options.stop);
  while (true) {
    CallScope scope(connection, deadline, options.stop);
    v1::GetServerInfoResponse response;
    const absl::Status status = FromGrpc(
        v1::ReductionService::NewStub(scope.channel())->GetServerInfo(&scope.context(), {}, &response));
    if (status.ok()) return response;
    if (!retry.Again(status, /*took_data=*/false)) return status;
  }
}

absl::StatusOr<bool> Client::IsServing(const CallOptions& options) {
  CallScope scope(NextConnection(), DeadlineOf(options), options.stop);
  grpc::health::v1::HealthCheckResponse response;
  const absl::Status status =
      FromGrpc(grpc::health::v1::Health::NewStub(scope.channel())->Check(&scope.context(), {}, &response));
  if (!status.ok()) return status;
  return response.status() == grpc::health::v1::HealthCheckResponse::SERVING;
}

}  // namespace warpfold
