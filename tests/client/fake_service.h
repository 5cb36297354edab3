// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A server of the protocol that adds int32 elements and records what it was sent. Tests make it fail, wait
// and vanish at will.
#pragma once

#include <grpcpp/server.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "warpfold/v1/reduction.grpc.pb.h"

namespace warpfold {

// One Reduce stream or ReduceArray call, as it arrived.
struct SeenCall {
  v1::ReduceHeader header;
  std::vector<v1::ReduceChunk> chunks;
  v1::ReduceCommit commit;
  std::string data;
  bool small = false;  // ReduceArray
};

// A status with an ErrorInfo, as the real server sends it.
grpc::Status ErrorWithReason(grpc::StatusCode code, const std::string& message, const std::string& reason);

// The rejection by a full server, which says when to come again.
grpc::Status Busy(std::int64_t retry_ms);

// Whether the client of this call waits to be told that it is admitted.
bool AsksForAdmission(const grpc::ServerContext& context);

// The least that a server reports about itself.
v1::GetServerInfoResponse SampleInfo();

class FakeService final : public v1::ReductionService::Service {
 public:
  // Called with the number of the call (0, 1, ...) before anything is read; an error is returned at once.
  std::function<grpc::Status(int call, grpc::ServerContext& context)> on_start;
  // Called after each chunk; an error is returned at once.
  std::function<grpc::Status(const SeenCall& call, grpc::ServerContext& context)> on_chunk;

  // Called when the commit has been read, before the response; an error is returned.
  std::function<grpc::Status(const SeenCall& call, grpc::ServerContext& context)> on_commit;
  // Called with the number of the Merge (0, 1, ...); an error is returned.
  std::function<grpc::Status(int merge)> on_merge;
  // Changes the response: a server that does not follow the protocol.
  std::function<void(v1::Reduction& reduction)> on_answer;

  // Whether streams that ask for admission are told of it after on_start: older servers do not know the
  // question.
  bool tells_admissions = true;

  // The response to GetServerInfo. Without advice, as here, a client uses one stream.
  v1::GetServerInfoResponse info = SampleInfo();

  // The size of each partial state; at least 8.
  std::size_t state_bytes = 8;

  // Calls that ended OK, in the order in which they ended.
  std::vector<SeenCall> calls() const;
  // The number of Reduce and ReduceArray calls.
  int started() const;
  int merges() const;
  int questions() const;  // GetServerInfo

  grpc::Status Reduce(grpc::ServerContext* context, grpc::ServerReader<v1::ReduceRequest>* reader,
                      v1::ReduceResponse* response) override;
  grpc::Status ReduceArray(grpc::ServerContext* context, const v1::ReduceArrayRequest* request,
                           v1::ReduceArrayResponse* response) override;
  grpc::Status Merge(grpc::ServerContext* context, const v1::MergeRequest* request,
                     v1::MergeResponse* response) override;
  grpc::Status GetServerInfo(grpc::ServerContext* context, const v1::GetServerInfoRequest* request,
                             v1::GetServerInfoResponse* response) override;

 private:
  v1::PartialState StateOf(std::uint64_t first_element, std::uint64_t element_count, std::int64_t sum) const;
  grpc::Status Start(grpc::ServerContext& context);
  void Keep(SeenCall call);

  mutable absl::Mutex mutex_;
  std::vector<SeenCall> calls_ ABSL_GUARDED_BY(mutex_);
  int started_ ABSL_GUARDED_BY(mutex_) = 0;
  int merges_ ABSL_GUARDED_BY(mutex_) = 0;
  int questions_ ABSL_GUARDED_BY(mutex_) = 0;
};

// A service, or two, on a port of the loopback interface: a free one, or `port`.
class FakeServer {
 public:
  explicit FakeServer(grpc::Service& service, int port = 0, grpc::Service* second = nullptr);
  // Ends running calls, without waiting for their clients.
  ~FakeServer();

  int port() const { return port_; }
  std::string target() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace warpfold
