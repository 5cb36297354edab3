// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls without a transport: the test brings the events, one after the other, and sees what each call asks
// for.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "kernels/error.h"
#include "server/core/calls/call.h"
#include "server/core/calls/shard.h"
#include "tests/server/drive_session.h"
#include "tests/server/fake_backend.h"

namespace warpfold::server {

inline constexpr char kReduce[] = "/warpfold.v1.ReductionService/Reduce";
inline constexpr char kReduceSegments[] = "/warpfold.v1.SegmentService/ReduceSegments";
inline constexpr char kPutArray[] = "/warpfold.v1.ArrayService/PutArray";
inline constexpr char kWatch[] = "/grpc.health.v1.Health/Watch";
inline constexpr char kMerge[] = "/warpfold.v1.ReductionService/Merge";
inline constexpr char kReduceArray[] = "/warpfold.v1.ReductionService/ReduceArray";
inline constexpr char kListArrays[] = "/warpfold.v1.ArrayService/ListArrays";
inline constexpr char kServerInfo[] = "/warpfold.v1.ReductionService/GetServerInfo";
inline constexpr char kReflectionInfo[] = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

// A call, and what it has asked of its transport so far.
class Caller : private Transport {
 public:
  Caller(Shard& shard, const std::string& method, const std::string& host = "192.0.2.1",
         bool expects_admission = false)
      : call_(shard, *this,
              {.method = method,
               .peer = "ipv4:" + host + ":1024",
               .array = "an array",
               .expects_admission = expects_admission}) {
    call_.Begin();
  }

  void Say(std::string message) {
    EXPECT_TRUE(std::exchange(reading_, false));
    call_.OnMessage(Message::Of(std::move(message)));
  }
  void HalfClose() {
    EXPECT_TRUE(std::exchange(reading_, false));
    call_.OnEnd();
  }

  Call& call() { return call_; }
  bool reading() const { return reading_; }
  int sent() const { return sent_; }
  bool told_admitted() const { return told_admitted_; }
  bool answered() const { return status_.has_value(); }
  bool cut_off() const { return cut_off_; }
  // Of the response.
  std::string Reason() const { return status_.has_value() ? kernels::ErrorReason(*status_) : "no answer"; }

 private:
  void Read() override { reading_ = true; }
  void TellAdmitted() override { EXPECT_FALSE(reading_ || std::exchange(told_admitted_, true)); }
  void Send(std::string, bool) override { ++sent_; }
  void Answer(const absl::Status& status, std::optional<std::string>) override { status_ = status; }
  void CutOff() override { cut_off_ = true; }

  bool reading_ = false;
  bool told_admitted_ = false;
  int sent_ = 0;
  bool cut_off_ = false;
  std::optional<absl::Status> status_;
  Call call_;
};

class CallTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kPoolBytes = std::uint64_t{64} << 20;

  // Without an event at its end, unless the shard `is_busy`.
  void Wait(absl::Duration time, bool is_busy = false) {
    now_ += time;
    if (!is_busy) idle_at_ = now_;
    shard_.OnTick(idle_at_);
  }

  absl::Time now_ = absl::UnixEpoch();
  absl::Time idle_at_ = now_;
  FakeBackend backend_;
  Service service_{backend_, Limits(), [this] { return now_; }};
  Shard shard_{service_, SlotsOf(backend_)};
};

}  // namespace warpfold::server
