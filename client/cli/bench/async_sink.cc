// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "client/calls/wire.h"
#include "client/cli/bench/sinks.h"
#include "client/cli/bench/staging.h"
#include "grpc/health/v1/health.pb.h"
#include "proto/shared/processors.h"

namespace warpfold::cli {
namespace {

// As in warpfold-server.
constexpr int kMaxThreads = 16;
constexpr int kCallsAsked = 16;

// Most chunks are larger; a message up to this size may be the commit.
constexpr std::size_t kMaxParsedBytes = 4096;

// How much a GPU's slot holds by default before the device reads all of it and releases it.
constexpr std::size_t kHeldBytes = 8 << 20;

// Messages that nobody reads and that lie where gRPC received them.
class Held {
 public:
  void Take(grpc::ByteBuffer& message) {
    bytes_ += message.Length();
    messages_.emplace_back().Swap(&message);
    if (bytes_ < kHeldBytes) return;
    messages_.clear();
    bytes_ = 0;
  }

 private:
  std::vector<grpc::ByteBuffer> messages_;
  std::size_t bytes_ = 0;
};

// A completion queue and the thread that serves it.
struct Shard {
  grpc::AsyncGenericService& methods;
  std::unique_ptr<grpc::ServerCompletionQueue> queue;
  std::unique_ptr<Staging> staging;  // where messages are copied to, if they are
  std::unique_ptr<Held> held;        // where they are kept, if they are
};

// One call at a time of a shard, with one operation in progress. Destroys itself.
class SinkCall {
 public:
  static void Request(Shard& shard) {
    auto* const call = new SinkCall(shard);
    shard.methods.RequestCall(&call->context_, &call->stream_, shard.queue.get(), shard.queue.get(), call);
  }

  void OnEvent(bool ok) {
    if (stage_ == Stage::kReads && ok) {
      Take();
    } else if (stage_ == Stage::kReads) {
      stage_ = Stage::kEnds;
      stream_.WriteAndFinish(Answer(), grpc::WriteOptions(), grpc::Status::OK, this);
    } else if (stage_ == Stage::kRequested && ok) {
      Request(shard_);
      stage_ = Stage::kReads;
      stream_.Read(&incoming_, this);
    } else {
      delete this;
    }
  }

 private:
  enum class Stage { kRequested, kReads, kEnds };

  explicit SinkCall(Shard& shard) : shard_(shard) {}

  // The next message is requested first, so that it can be received meanwhile.
  void Take() {
    grpc::ByteBuffer message;
    message.Swap(&incoming_);
    stream_.Read(&incoming_, this);
    if (!first_.Valid()) first_ = message;
    if (message.Length() <= kMaxParsedBytes) last_small_ = message;
    if (shard_.staging != nullptr) Copy(message, *shard_.staging);
    if (shard_.held != nullptr) shard_.held->Take(message);
  }

  static void Copy(const grpc::ByteBuffer& message, Staging& staging) {
    std::vector<grpc::Slice> slices;
    if (!message.Dump(&slices).ok()) return;
    for (const grpc::Slice& slice : slices) {
      staging.Append(std::as_bytes(std::span(slice.begin(), slice.size())));
    }
  }

  grpc::ByteBuffer Answer() {
    const std::string& method = context_.method();
    if (method.ends_with("/Reduce")) {
      v1::ReduceRequest first;
      v1::ReduceRequest last;
      v1::ReduceResponse response;
      if (Parse(first_, first) && Parse(last_small_, last)) {
        *response.mutable_reduction() = AnswerTo(first.header(), last.commit());
      }
      return Serialize(response);
    }
    if (method.ends_with("/Merge")) {
      v1::MergeRequest request;
      v1::MergeResponse response;
      if (Parse(first_, request)) *response.mutable_reduction() = AnswerTo(request);
      return Serialize(response);
    }
    if (method.ends_with("/Check")) {
      grpc::health::v1::HealthCheckResponse response;
      response.set_status(grpc::health::v1::HealthCheckResponse::SERVING);
      return Serialize(response);
    }
    if (method.ends_with("/GetServerInfo")) return Serialize(SinkInfo());
    return Serialize(v1::ReduceArrayResponse());
  }

  Shard& shard_;
  Stage stage_ = Stage::kRequested;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  grpc::ByteBuffer incoming_;    // gRPC's while a read is in progress
  grpc::ByteBuffer first_;       // of a stream, the header
  grpc::ByteBuffer last_small_;  // of a stream, the commit
};

void Serve(Shard& shard) {
  void* tag = nullptr;
  bool ok = false;
  while (shard.queue->Next(&tag, &ok)) static_cast<SinkCall*>(tag)->OnEvent(ok);
}

}  // namespace

absl::Status ServeAsync(const std::string& listen, SinkKind kind, const Ready& ready) {
  grpc::AsyncGenericService methods;
  grpc::ServerBuilder builder;
  ApplySinkSettings(builder);
  builder.RegisterAsyncGenericService(&methods);
  int port = 0;
  builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), &port);
  std::vector<Shard> shards;
  const int count = std::min(ProcessorCount(), kMaxThreads);
  for (int i = 0; i < count; ++i) {
    shards.push_back({.methods = methods,
                      .queue = builder.AddCompletionQueue(),
                      .staging = kind == SinkKind::kAsyncCopy ? std::make_unique<Staging>() : nullptr,
                      .held = kind == SinkKind::kAsyncHold ? std::make_unique<Held>() : nullptr});
  }
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return absl::UnavailableError("cannot listen on " + listen);
  std::vector<std::jthread> threads;
  for (Shard& shard : shards) {
    // The shard's own thread must not do this: it might ask after the queue has been shut down.
    for (int i = 0; i < kCallsAsked; ++i) SinkCall::Request(shard);
    threads.emplace_back([&shard] { Serve(shard); });
  }
  ready(BoundAddress(listen, port), [&server] { server->Shutdown(std::chrono::system_clock::now()); });
  server->Wait();
  for (Shard& shard : shards) shard.queue->Shutdown();
  return absl::OkStatus();
}

}  // namespace warpfold::cli
