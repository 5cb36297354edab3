// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One call on gRPC's asynchronous API, of any method: a stream of raw messages each way, so that nothing of a
// call is read before the core asks for it. It only translates between gRPC's events and the core's.
//
// Threads: the shard's only. Lifetime: it destroys itself once it is answered and gRPC has given everything
// back.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/support/byte_buffer.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/core/calls/call.h"
#include "server/rpc/rpc_shard.h"

namespace warpfold::server {

class RpcCall : private Transport {
 public:
  // Asks gRPC for the next call that arrives at the shard. That call then asks for the one after it.
  static void Request(RpcShard& shard);

 private:
  // An operation that gRPC has been given: it says which of the call's functions is told of its end.
  class Operation : public EventTag {
   public:
    Operation(RpcCall* call, void (RpcCall::*on_event)(bool)) : call_(call), on_event_(on_event) {}
    // The tag for one use.
    void* Begin() {
      ++call_->operations_;
      return static_cast<EventTag*>(this);
    }
    // For a use that gRPC will not report.
    void Forget() { --call_->operations_; }
    void OnEvent(bool ok) override;

   private:
    RpcCall* const call_;
    void (RpcCall::*const on_event_)(bool);
  };

  explicit RpcCall(RpcShard& shard);

  void OnRequested(bool ok);
  void OnRead(bool ok);
  void OnSent(bool ok);
  void OnTold(bool) {}
  void OnFinished(bool);
  void OnDone(bool);
  void OnNoMore(bool);

  void Read() override;
  void TellAdmitted() override;
  void Send(std::string message, bool is_followed) override;
  void Answer(const absl::Status& status, std::optional<std::string> response) override;
  void CutOff() override { context_.TryCancel(); }

  RpcShard& shard_;
  bool has_sent_ = false;  // its metadata, at least
  int operations_ = 0;     // that gRPC has been given and not reported
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  Operation requested_{this, &RpcCall::OnRequested};
  Operation read_{this, &RpcCall::OnRead};
  Operation sent_{this, &RpcCall::OnSent};
  Operation told_{this, &RpcCall::OnTold};
  Operation finished_{this, &RpcCall::OnFinished};
  Operation done_{this, &RpcCall::OnDone};
  Operation no_more_{this, &RpcCall::OnNoMore};
  std::optional<grpc::Alarm> no_more_alarm_;
  grpc::ByteBuffer incoming_;  // gRPC's while a read is in progress
  std::optional<Call> core_;   // once the call has come
};

}  // namespace warpfold::server
