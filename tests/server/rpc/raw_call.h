// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls a method with bytes that no message class would write.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace warpfold::server {

// A stream of raw messages each way. Threads: one.
class RawCall {
 public:
  RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
          const std::multimap<std::string, std::string>& metadata = {})
      : stub_(channel), stream_(stub_.PrepareCall(&context_, method, &queue_)) {
    for (const auto& [name, text] : metadata) context_.AddMetadata(name, text);
    context_.set_deadline(std::chrono::system_clock::now() + kPatience);
    stream_->StartCall(this);
    Next();
  }
  ~RawCall() {
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  bool Write(const std::string& bytes) {
    const grpc::Slice slice(bytes);
    stream_->Write(grpc::ByteBuffer(&slice, 1), this);
    return Next();
  }
  bool WritesDone() {
    stream_->WritesDone(this);
    return Next();
  }
  // Waits for what the server sends before its first message, in context(); to be called before any Read.
  bool ReadInitialMetadata() {
    stream_->ReadInitialMetadata(this);
    return Next();
  }
  // The next message that comes back; false at the end.
  bool Read(std::string* bytes) {
    grpc::ByteBuffer buffer;
    stream_->Read(&buffer, this);
    if (!Next()) return false;
    std::vector<grpc::Slice> slices;
    if (!buffer.Dump(&slices).ok()) return false;
    bytes->clear();
    for (const grpc::Slice& slice : slices) {
      bytes->append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    return true;
  }
  grpc::Status Finish() {
    std::string ignored;
    while (Read(&ignored)) {
    }
    grpc::Status status;
    stream_->Finish(&status, this);
    Next();
    return status;
  }

  grpc::ClientContext& context() { return context_; }

 private:
  static constexpr auto kPatience = std::chrono::minutes(1);  // so that no test waits for ever

  bool Next() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  grpc::GenericStub stub_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
};

}  // namespace warpfold::server
