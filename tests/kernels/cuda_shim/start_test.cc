// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Machines on which the backend cannot be opened: what the server reports before it ends, or uses the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device_reducer.h"
#include "kernels/cuda/segments/device_segment_reducer.h"
#include "kernels/error.h"
#include "tests/kernels/cuda_shim/shim.h"

namespace warpfold::kernels::shim {
namespace {

using testing::HasSubstr;

class StartTest : public testing::Test {
 protected:
  // The first call asks for the driver, the second for the GPUs.
  static constexpr std::size_t kCount = 2;

  ~StartTest() override { Shim::Get().Begin({}); }

  static absl::Status Open(std::size_t slot_bytes = 1 << 20) {
    return MakeCudaBackend(std::array{0}, {.slots = 1, .slot_bytes = slot_bytes}).status();
  }
  static std::string TextOf(const absl::Status& status) { return std::string(status.message()); }
};

TEST_F(StartTest, GpuThatWorksIsOpened) {
  Shim::Get().Begin({});
  EXPECT_TRUE(Open().ok()) << Open();
}

// Tickets are zeroed on a stream for which the slots' streams do not wait: a first launch that came before
// that would find its last block by wrong numbers. Each reducer waits by itself, whichever reducer is made
// after it.
TEST_F(StartTest, TicketsOfReducersAreZeroBeforeAnybodyCanLaunch) {
  Shim::Get().Begin({});
  const auto reducer = DeviceReducer::Create(1 << 20);
  ASSERT_TRUE(reducer.ok()) << reducer.status();
  EXPECT_FALSE(Shim::Get().HasWork());
  const auto segments = DeviceSegmentReducer::Create(1 << 20, 1);
  ASSERT_TRUE(segments.ok()) << segments.status();
  EXPECT_FALSE(Shim::Get().HasWork());
}

// Not NOT_FOUND, for which --device=auto would use the CPU: the GPU is there, and would be missed.
TEST_F(StartTest, DriverThatIsTooOldIsNamedWithBothVersions) {
  Shim::Get().Begin({{kCount, cudaErrorInsufficientDriver}});
  const absl::Status status = Open();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_EQ(TextOf(status), "the NVIDIA driver is too old: it is of CUDA 13.0, and this build needs 13.0");
}

TEST_F(StartTest, MachineWithoutGpuIsNoError) {
  Shim::Get().Begin({{kCount, cudaErrorNoDevice}});
  const absl::Status status = Open();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_EQ(TextOf(status), "there is no GPU");
}

TEST_F(StartTest, MemoryThatTheGpuLacksIsNamedWithItsBytes) {
  Shim::Get().Begin({});
  const absl::Status status = Open(std::size_t{1} << 50);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(TextOf(status), HasSubstr("bytes of the GPU, more than the"));
  EXPECT_THAT(TextOf(status), HasSubstr("that cuda:0 has free"));
}

}  // namespace
}  // namespace warpfold::kernels::shim
