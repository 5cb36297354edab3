// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "absl/strings/str_split.h"
#include "client/calls/lent_memory.h"
#include "client/calls/methods.h"
#include "client/calls/raw_call.h"
#include "client/calls/translate.h"
#include "client/calls/wire.h"
#include "client/cli/bench/caller.h"
#include "client/client.h"
#include "client/connections/connection.h"
#include "proto/shared/steady_time.h"

namespace warpfold::cli {
namespace {

absl::StatusOr<Reduction> Stream(Client& client, const BenchFlags& flags, const Spec& spec,
                                 std::span<const std::byte> array) {
  if (flags.segment_length > 0) {
    return ReductionOf(client.ReduceSegmentsOf(
        spec, flags.type, array, {.length = flags.segment_length}, [](const SegmentResults&) {},
        {.timeout = kCallTimeout, .chunk_bytes = static_cast<std::size_t>(flags.chunk_bytes)}));
  }
  return client.ReduceBytes(spec, flags.type, array,
                            {.timeout = kCallTimeout,
                             .streams = flags.streams,
                             .chunk_bytes = static_cast<std::size_t>(flags.chunk_bytes)});
}

// One message, whatever the size: the client library itself makes a stream of more than 64 KiB.
absl::StatusOr<Reduction> SendArray(const Connection& connection, const v1::ReduceArrayRequest& request,
                                    std::span<const std::byte> array) {
  LentMemory memory(connection);  // outlives the call
  CallScope scope(connection, SteadyNow() + kCallTimeout, {});
  RawCall call(scope, kReduceArrayMethod);
  call.WriteLast(ArrayMessage(request, memory.Lend(array)));
  grpc::ByteBuffer buffer;
  if (absl::Status status = call.Finish(&buffer); !status.ok()) return status;
  v1::ReduceArrayResponse response;
  if (absl::Status status = ParseAnswer(std::move(buffer), response); !status.ok()) return status;
  return FromProto(response.reduction());
}

template <typename Answer>
absl::StatusOr<Reduction> Nothing(const absl::StatusOr<Answer>& answer) {
  if (!answer.ok()) return answer.status();
  return Reduction{};
}

}  // namespace

// Random integers would overflow a sum or a product, which is not to be measured.
Spec SpecOf(const BenchFlags& flags) {
  return {.operators = absl::StrSplit(flags.op, ','), .wrap_overflow = true};
}

Caller MakeGrpcCaller(const Server& server, const BenchFlags& flags) {
  ClientOptions options = {.credentials = server.credentials};
  if (flags.streams != 0) options.connections = flags.streams;
  auto client = std::make_shared<Client>(server.target(), options);
  switch (flags.method) {
    case BenchMethod::kReduce:
      return [client, flags, spec = SpecOf(flags)](std::span<const std::byte> array) {
        return Stream(*client, flags, spec, array);
      };
    case BenchMethod::kArray: {
      auto connection = std::make_shared<Connection>(server.target(), options);
      v1::ReduceArrayRequest request;
      // The operators are known: they were checked with the flags.
      *request.mutable_spec() = *ToProto(SpecOf(flags), flags.type);
      // The client only keeps gRPC running.
      return [client, connection, request](std::span<const std::byte> array) {
        return SendArray(*connection, request, array);
      };
    }
    case BenchMethod::kInfo:
      return [client](std::span<const std::byte>) {
        return Nothing(client->GetServerInfo({.timeout = kCallTimeout}));
      };
    case BenchMethod::kHealth:
      return [client](std::span<const std::byte>) {
        return Nothing(client->IsServing({.timeout = kCallTimeout}));
      };
  }
  return nullptr;
}

}  // namespace warpfold::cli
