// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The process that reads GPU memory first. Here it is this executable, started again; the first byte of a
// handle says what becomes of who reads the memory.
#include "server/memory/handle_prober.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"

namespace warpfold::server {
namespace {

constexpr char kProbeFlag[] = "--probe";

enum class Fate : unsigned char { kGood, kGoodOnce, kBad, kFaults, kCrashes, kHangs, kNoRoom, kLast };

absl::Status Read(const kernels::ProcessMemory& memory) {
  static int probes = 0;
  ++probes;
  switch (static_cast<Fate>(memory.handle[0])) {
    case Fate::kGood:
      return absl::OkStatus();
    case Fate::kGoodOnce:
      return probes == 1 ? absl::OkStatus() : absl::InvalidArgumentError("asked again");
    case Fate::kBad:
      return absl::InvalidArgumentError("no such memory");
    case Fate::kFaults:
      return absl::UnavailableError("CUDA error 700");
    case Fate::kCrashes:
      std::raise(SIGKILL);
      break;
    case Fate::kHangs:
      pause();
      break;
    case Fate::kLast:
      std::thread([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        _exit(0);
      }).detach();
      return absl::OkStatus();
    case Fate::kNoRoom:
      return absl::ResourceExhaustedError(std::string(5000, 'x'));
  }
  return absl::UnknownError("");
}

class HandleProberTest : public testing::Test {
 protected:
  absl::Status Probe(Fate fate, std::uint64_t offset = 0, std::uint64_t count = 4096) {
    kernels::ProcessMemory memory = {.byte_offset = offset, .byte_count = count};
    memory.handle[0] = static_cast<std::byte>(fate);
    return prober_.Probe(memory);
  }

  void ExpectBad(Fate fate, absl::string_view message) {
    const absl::Status status = Probe(fate);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(kernels::ErrorReason(status), "BAD_MEMORY");
    EXPECT_EQ(status.message(), message);
  }

  HandleProber prober_{{"/proc/self/exe", kProbeFlag}, absl::Milliseconds(500)};
};

TEST_F(HandleProberTest, WhatCanBeReadIsGood) {
  EXPECT_TRUE(Probe(Fate::kGood).ok());
  ExpectBad(Fate::kBad, "no such memory");
  EXPECT_TRUE(Probe(Fate::kGood).ok());
}

TEST_F(HandleProberTest, APartOfWhatWasReadIsNotReadAgain) {
  EXPECT_TRUE(Probe(Fate::kGoodOnce, 4096, 8192).ok());
  EXPECT_TRUE(Probe(Fate::kGoodOnce, 4096, 8192).ok());
  EXPECT_TRUE(Probe(Fate::kGoodOnce, 8192, 4096).ok());
  EXPECT_FALSE(Probe(Fate::kGoodOnce, 4096, 8193).ok());
  EXPECT_FALSE(Probe(Fate::kGoodOnce, 4095, 2).ok());
  EXPECT_FALSE(Probe(Fate::kGoodOnce, 12288, 1).ok());
  EXPECT_FALSE(Probe(Fate::kGoodOnce, 0, ~std::uint64_t{0}).ok());
}

TEST_F(HandleProberTest, WhoeverReadsItMayEndAndTheNextIsProbedAllTheSame) {
  for (int i = 0; i < 3; ++i) {
    ExpectBad(Fate::kFaults, "CUDA error 700");
    ExpectBad(Fate::kCrashes, "reading the memory of the handle ends the process that does it");
    EXPECT_TRUE(Probe(Fate::kGood, 4096 * (i + 1)).ok());
  }
  EXPECT_TRUE(Probe(Fate::kLast).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // it ends by itself
  EXPECT_TRUE(Probe(Fate::kGood, 1 << 20).ok());
  ExpectBad(Fate::kHangs, "reading the memory of the handle does not end");
  EXPECT_TRUE(Probe(Fate::kGood, 0).ok());
}

TEST_F(HandleProberTest, OtherErrorsStayWhatTheyAre) {
  const absl::Status status = Probe(Fate::kNoRoom);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_GT(status.message().size(), 400u);
}

TEST(HandleProber, WithoutAProcessNothingIsGood) {
  HandleProber prober({"/nonexistent"});
  const absl::Status status = prober.Probe({.byte_count = 1});
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(kernels::ErrorReason(status), "NO_PROBER");
}

}  // namespace
}  // namespace warpfold::server

int main(int argc, char** argv) {
  using namespace warpfold::server;  // NOLINT(google-build-using-namespace): this is its main
  if (argc == 2 && std::strcmp(argv[1], kProbeFlag) == 0) return ServeProbes(Read);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
