// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A command has one deadline for everything that it does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "client/cli/commands.h"
#include "client/cli/deadline.h"
#include "client/cli/npz.h"
#include "proto/shared/steady_time.h"
#include "tests/client/cli/zip_file.h"
#include "tests/client/fake_service.h"
#include "tests/set_clock.h"
#include "tests/temporary_folder.h"
#include "warpfold/v1/arrays.grpc.pb.h"

namespace warpfold::cli {
namespace {

using testing::HasSubstr;

// Takes its time to describe an array.
class SlowArrays final : public v1::ArrayService::Service {
 public:
  static constexpr absl::Duration kSlow = absl::Seconds(3);

  grpc::Status GetArray(grpc::ServerContext*, const v1::GetArrayRequest*,
                        v1::GetArrayResponse* response) override {
    absl::SleepFor(kSlow);
    response->mutable_array()->set_element_type(v1::ELEMENT_TYPE_INT32);
    response->mutable_array()->set_element_count(1000);
    response->mutable_array()->set_byte_count(4000);
    return grpc::Status::OK;
  }
  grpc::Status PutArray(grpc::ServerContext* context, grpc::ServerReader<v1::PutArrayRequest>*,
                        v1::PutArrayResponse*) override {
    while (!context->IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
    return grpc::Status::CANCELLED;
  }
};

// A server that never responds to a reduction.
class CliDeadlineTest : public testing::Test {
 protected:
  CliDeadlineTest() {
    service_.on_start = [](int, grpc::ServerContext& context) {
      while (!context.IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
      return grpc::Status::CANCELLED;
    };
  }

  // Runs the command, which must end with its deadline.
  template <typename Command>
  void ExpectTimeIsUp(absl::Time deadline, const Command& run) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(run(Server{{server_.target()}, nullptr}), kExitServerError);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("DEADLINE_EXCEEDED"));
    EXPECT_LT(SteadyNow() - deadline, absl::Seconds(2));
  }

  SlowArrays arrays_;
  FakeService service_;
  const FakeServer server_{service_, 0, &arrays_};
};

TEST_F(CliDeadlineTest, BothCallsForAKeptArrayShareIt) {
  ReduceFlags flags;
  flags.spec.operators = {"sum"};
  flags.array = "00";
  flags.deadline = SteadyNow() + SlowArrays::kSlow + absl::Seconds(1);
  ExpectTimeIsUp(flags.deadline, [&](const Server& server) { return RunReduce(server, flags); });
}

TEST_F(CliDeadlineTest, AnArrayThatIsPutHasOne) {
  const TemporaryFolder folder;
  const std::string path = folder.Path("put.raw");
  std::ofstream(path) << "12345678";
  PutFlags flags;
  flags.input = path;
  flags.type = ElementType::kInt32;
  flags.deadline = SteadyNow() + absl::Seconds(1);
  ExpectTimeIsUp(flags.deadline, [&](const Server& server) { return RunPut(server, flags); });
}

TEST(DeadlineGuardTest, LetsACommandRunWhenSomebodySetsTheClock) {
  for (const int ahead : {3600, -3600}) {
    ClockSetter clock;
    const DeadlineGuard guard(SteadyNow() + absl::Seconds(60));
    absl::SleepFor(absl::Milliseconds(50));  // until its thread waits
    clock.Set(std::chrono::seconds(ahead));
    absl::SleepFor(absl::Milliseconds(50));  // it would end the process
  }
}

TEST(DeadlineGuardTest, LetsACommandRunForAsLongAsItLikes) {
  const DeadlineGuard guard(SteadyNow() + absl::Seconds(1e300));
  absl::SleepFor(absl::Milliseconds(50));  // it would end the process
}

TEST(CheckOfAnArchiveTest, EndsAtTheDeadlineAndWhenItIsNotWanted) {
  std::string bytes = ZipFile({{"x.npy", std::string(10 << 20, 'x')}});
  const absl::StatusOr<NpzMember> member = NpzMember::Find(std::as_bytes(std::span(bytes)), std::nullopt);
  ASSERT_TRUE(member.ok()) << member.status();
  EXPECT_TRUE(member->CheckStored(absl::InfiniteFuture()).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(member->CheckStored(SteadyNow())));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(member->CheckStored(absl::InfiniteFuture(), stop.get_token())));
  bytes[bytes.size() / 2] = 'y';
  EXPECT_THAT(member->CheckStored(absl::InfiniteFuture()).message(), HasSubstr("checksum"));
}

}  // namespace
}  // namespace warpfold::cli
