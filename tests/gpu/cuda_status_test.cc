// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which of CUDA's errors cost a request, and which cost the process. Needs no GPU.
#include "kernels/cuda/cuda_status.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <initializer_list>

#include "gtest/gtest.h"
#include "kernels/error.h"

namespace warpfold::kernels::cuda {
namespace {

// The errors are listed by number: the headers may rename them, but drivers keep returning the same numbers.
constexpr std::initializer_list<int> kRefused = {1, 2, 9, 98, 209, 701, 720, 801};
// After these a context is unusable until its process ends.
constexpr std::initializer_list<int> kSticky = {226, 700, 702, 710, 714, 715, 716,
                                                717, 718, 719, 721, 810, 911};
// Errors of the device as a whole: not available, an uncorrectable ECC error, NVLink, unknown.
constexpr std::initializer_list<int> kLost = {46, 214, 220, 999};

void ExpectStatus(int code, absl::StatusCode status_code, const char* reason) {
  const absl::Status status = StatusOf(static_cast<cudaError_t>(code), "cudaLaunchKernel(kernel, 0x7f00)");
  EXPECT_EQ(status.code(), status_code) << status;
  EXPECT_EQ(ErrorReason(status), reason) << status;
  EXPECT_EQ(status.message().find("0x7f00"), absl::string_view::npos) << status;
}

TEST(CudaStatusTest, SuccessIsOk) {
  EXPECT_TRUE(StatusOf(cudaSuccess, "cudaMalloc").ok());
  EXPECT_FALSE(IsRefusal(cudaSuccess));
}

TEST(CudaStatusTest, RefusalsCostTheirRequestOnly) {
  for (const int code : kRefused) {
    ExpectStatus(code, absl::StatusCode::kInternal, "LAUNCH_REFUSED");
    EXPECT_FALSE(IsDeviceLost(StatusOf(static_cast<cudaError_t>(code), "launch"))) << code;
  }
}

TEST(CudaStatusTest, WhatPoisonsTheContextLosesTheDevice) {
  for (const auto& codes : {kSticky, kLost}) {
    for (const int code : codes) {
      ExpectStatus(code, absl::StatusCode::kUnavailable, "DEVICE_LOST");
      EXPECT_TRUE(IsDeviceLost(StatusOf(static_cast<cudaError_t>(code), "launch"))) << code;
    }
  }
}

TEST(CudaStatusTest, WhateverIsNotKnownToBeHarmlessLosesTheDevice) {
  for (int code = 1; code <= 2000; ++code) {
    const bool is_refused = std::find(kRefused.begin(), kRefused.end(), code) != kRefused.end();
    EXPECT_EQ(IsRefusal(static_cast<cudaError_t>(code)), is_refused) << code;
    EXPECT_EQ(IsDeviceLost(StatusOf(static_cast<cudaError_t>(code), "launch")), !is_refused) << code;
  }
}

TEST(CudaStatusTest, AnyErrorOfACallThatMustNotFailLosesTheDevice) {
  EXPECT_TRUE(LossOf(cudaSuccess, "cudaStreamSynchronize").ok());
  for (int code = 1; code <= 2000; ++code) {
    EXPECT_TRUE(IsDeviceLost(LossOf(static_cast<cudaError_t>(code), "cudaStreamSynchronize"))) << code;
  }
}

TEST(CudaStatusTest, OtherStatusesAreNoDeviceErrors) {
  EXPECT_FALSE(IsDeviceLost(absl::OkStatus()));
  EXPECT_FALSE(IsDeviceLost(absl::UnavailableError("draining")));
}

}  // namespace
}  // namespace warpfold::kernels::cuda
