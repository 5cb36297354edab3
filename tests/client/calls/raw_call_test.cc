// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Servers that do not follow the protocol of a call with one response.
#include "client/calls/raw_call.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace warpfold {
namespace {

grpc::ByteBuffer BufferOf(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

std::string TextOf(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  EXPECT_TRUE(buffer.DumpToSingleSlice(&slice).ok());
  return std::string(reinterpret_cast<const char*>(slice.begin()), slice.size());
}

// Responds to every call with the messages "0", "1", ... and OK.
class Talker final : public grpc::CallbackGenericService {
 public:
  explicit Talker(int messages) : messages_(messages) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
  }
  ~Talker() override { server_->Shutdown(absl::ToChronoTime(absl::Now())); }

  std::string target() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  class Call final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Call(int messages) : messages_(messages) { WriteNext(); }

   private:
    void WriteNext() {
      if (written_ == messages_) return Finish(grpc::Status::OK);
      message_ = BufferOf(absl::StrCat(written_++));
      StartWrite(&message_);
    }
    void OnWriteDone(bool ok) override {
      if (ok) return WriteNext();
      Finish(grpc::Status::CANCELLED);
    }
    void OnDone() override { delete this; }

    const int messages_;
    int written_ = 0;
    grpc::ByteBuffer message_;
  };

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new Call(messages_);  // deletes itself
  }

  const int messages_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

absl::Status Ask(const Talker& server, grpc::ByteBuffer* answer) {
  const Connection connection(server.target(), {});
  CallScope scope(connection, absl::Now() + absl::Seconds(30), {});
  RawCall call(scope, "/any/Method");
  call.WriteLast(BufferOf("question"));
  return call.Finish(answer);
}

TEST(RawCallTest, OneMessageIsTheAnswer) {
  const Talker server(1);
  grpc::ByteBuffer answer;
  ASSERT_TRUE(Ask(server, &answer).ok());
  EXPECT_EQ(TextOf(answer), "0");
}

TEST(RawCallTest, NoMessageIsNoAnswer) {
  const Talker server(0);
  grpc::ByteBuffer answer;
  EXPECT_TRUE(absl::IsInternal(Ask(server, &answer)));
}

// gRPC reports a call's status only when all messages are read: a client that reads one waits for its
// deadline.
TEST(RawCallTest, ASecondMessageEndsTheCall) {
  for (const int messages : {2, 5}) {
    const Talker server(messages);
    grpc::ByteBuffer answer;
    const absl::Status status = Ask(server, &answer);
    EXPECT_TRUE(absl::IsInternal(status)) << status;
  }
}

}  // namespace
}  // namespace warpfold
