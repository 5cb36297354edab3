// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Values that are read from NVIDIA's management library, here one that this test brings. Needs neither CUDA
// nor a GPU.
#include "kernels/cuda/nvml.h"

#include <gtest/gtest.h>

namespace warpfold::kernels::cuda {
namespace {

TEST(NvmlTest, ReadsWhatTheDriverTells) {
  const auto nvml = Nvml::Open("0000:1B:00.0", WARPFOLD_FAKE_NVML);
  ASSERT_NE(nvml, nullptr);
  const DeviceTelemetry told = nvml->Read();
  EXPECT_EQ(told.memory_bytes, 100u);
  EXPECT_EQ(told.memory_used_bytes, 70u);
  EXPECT_EQ(told.temperature_celsius, 55);
  EXPECT_EQ(told.corrected_errors, 9u);
  EXPECT_EQ(told.uncorrected_errors, 2u);
  EXPECT_FALSE(told.power_watts.has_value());
}

TEST(NvmlTest, IsNullWhereThereIsNoSuchGpuOrLibrary) {
  EXPECT_EQ(Nvml::Open("0000:99:00.0", WARPFOLD_FAKE_NVML), nullptr);
  EXPECT_EQ(Nvml::Open("0000:1B:00.0", "libno-such-library.so.1"), nullptr);
  EXPECT_EQ(Nvml::Open("0000:1B:00.0", "libc.so.6"), nullptr);
}

}  // namespace
}  // namespace warpfold::kernels::cuda
