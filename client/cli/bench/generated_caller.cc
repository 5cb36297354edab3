// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A client as most users would write it, with the stubs that protoc generates. Each chunk is copied twice:
// into a message, and then into gRPC's send buffer.
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "client/calls/translate.h"
#include "client/cli/bench/caller.h"
#include "client/connections/status.h"
#include "client/connections/target_names.h"
#include "warpfold/v1/reduction.grpc.pb.h"

namespace warpfold::cli {
namespace {

void WriteAll(grpc::ClientWriter<v1::ReduceRequest>& writer, const v1::ReductionSpec& spec,
              std::span<const std::byte> array, const BenchFlags& flags) {
  const auto chunk_bytes = static_cast<std::size_t>(flags.chunk_bytes);
  v1::ReduceRequest request;
  *request.mutable_header()->mutable_spec() = spec;
  bool open = writer.Write(request);
  for (std::size_t begin = 0; open && begin < array.size(); begin += chunk_bytes) {
    const auto chunk = array.subspan(begin, std::min(chunk_bytes, array.size() - begin));
    request.mutable_chunk()->set_data(chunk.data(), chunk.size());
    open = writer.Write(request);
  }
  request.mutable_commit()->set_element_count(array.size() / ElementTypeBytes(flags.type));
  request.mutable_commit()->set_byte_count(array.size());
  if (open && writer.Write(request)) writer.WritesDone();
}

}  // namespace

Caller MakeGeneratedCaller(const Server& server, const BenchFlags& flags) {
  const auto credentials =
      server.credentials != nullptr ? server.credentials : grpc::InsecureChannelCredentials();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a socket of its own
  // As in the client library (connection.cc), no proxy is used for servers on this machine.
  if (IsOfThisMachine(server.target())) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  std::shared_ptr<v1::ReductionService::Stub> stub = v1::ReductionService::NewStub(
      grpc::CreateCustomChannel(UriOf(server.target()), credentials, arguments));
  // The operators are known: they were checked with the flags.
  return [stub, flags, spec = *ToProto(SpecOf(flags), flags.type)](
             std::span<const std::byte> array) -> absl::StatusOr<Reduction> {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoNanoseconds(kCallTimeout));
    v1::ReduceResponse response;
    const auto writer = stub->Reduce(&context, &response);
    WriteAll(*writer, spec, array, flags);
    if (const grpc::Status status = writer->Finish(); !status.ok()) return FromGrpc(status);
    return FromProto(response.reduction());
  };
}

}  // namespace warpfold::cli
