// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/raw_call.h"

#include "client/status.h"

namespace warpfold {

RawCall::RawCall(CallScope& scope, const char* method) : scope_(scope) {
  call_ = grpc::GenericStub(scope.channel()).PrepareCall(&scope.context(), method, &queue_);
  call_->StartCall(this);
  // A failure shows in the first write.
  Await();
}

RawCall::~RawCall() {
  if (!finished_) {
    scope_.context().TryCancel();
    grpc::ByteBuffer ignored;
    Finish(&ignored).IgnoreError();
  }
  queue_.Shutdown();
  Await();
}

bool RawCall::StartWrite(const grpc::ByteBuffer& message, grpc::WriteOptions options) {
  if (!AwaitWrite()) return false;
  call_->Write(message, options, this);
  write_pending_ = true;
  return true;
}

absl::Status RawCall::Finish(grpc::ByteBuffer* response) {
  finished_ = true;
  AwaitWrite();
  call_->Read(response, this);
  const bool has_response = Await();
  grpc::Status status;
  call_->Finish(&status, this);
  Await();
  if (status.ok() && !has_response) return absl::InternalError("the server answered OK without a message");
  return FromGrpc(status);
}

bool RawCall::Await() {
  void* tag = nullptr;
  bool ok = false;
  return queue_.Next(&tag, &ok) && ok;
}

bool RawCall::AwaitWrite() {
  if (!write_pending_) return true;
  write_pending_ = false;
  if (!Await()) return false;
  ++writes_completed_;
  return true;
}

}  // namespace warpfold
