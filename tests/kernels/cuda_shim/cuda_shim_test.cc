// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Every call of CUDA that the backend makes fails with every kind of error, one call in each run; if a call
// is made only after another one has failed, both fail. play.h says what must hold whatever fails, and this
// file which status reports it. WARPFOLD_CUDA_FAILURES=N:CODE, or N:CODE,M:CODE, plays only that run.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/error.h"
#include "tests/kernels/cuda_shim/call_sites.h"
#include "tests/kernels/cuda_shim/play.h"
#include "tests/kernels/device_under_test.h"

namespace warpfold::kernels::shim {
namespace {

// Errors that cost their request; one that means "not ready"; errors that count as loss of the device
// although later calls work, the last two of them unknown to everybody; and errors that stay.
constexpr std::array kCodes = {1, 2, 9, 98, 209, 701, 720, 801, 600, 46, 100, 999, 12345, 700, 719};
// One of each kind, for sanitizers, which make the test slow. 2 and 100 have their own meanings: there is no
// memory, and no GPU.
constexpr std::array kFewCodes = {1, 2, 600, 100, 700};
std::span<const int> Codes() { return SmallScale() ? std::span<const int>(kFewCodes) : kCodes; }

enum class Expected { kNothing, kLaunchRefused, kDeviceLost, kNoMemory, kBadMemory, kNoGpu };

bool IsStep(const Played& plain, std::size_t call, std::string_view name) {
  return Scenario::Steps()[plain.steps[call]].name == name;
}
bool IsCall(const Played& plain, std::size_t call, std::string_view function) {
  return call < plain.calls.size() && plain.calls[call].function == function;
}

// The calls whose errors are reported to nobody, as long as the device goes on.
bool IsIgnored(const Played& plain, std::size_t call, int code) {
  if (Scenario::Steps()[plain.steps[call]].answer == Scenario::Answer::kIgnored) return true;
  // There is nobody to tell, and what is not given back belongs to the process until it ends. The calls
  // around it are in the same destructor.
  if (IsRelease(plain.calls[call]) || IsCall(plain, call, "cudaGetLastError")) return true;
  if (IsCall(plain, call, "cudaSetDevice") && IsRelease(plain.calls[call + 1])) return true;
  // Memory that is not registered is copied nevertheless.
  if (IsCall(plain, call, "cudaHostRegister") && !IsStep(plain, call, "open memory for pieces")) return true;
  // A caller that asks whether the end is reached goes on to wait for it; a notice that cannot be requested
  // comes at once.
  const bool is_harmless = code == cudaErrorNotReady || IsRefusal(static_cast<cudaError_t>(code));
  if (IsCall(plain, call, "cudaEventQuery")) return is_harmless;
  const bool notifies =
      IsCall(plain, call, "cudaLaunchHostFunc") ||
      (IsCall(plain, call, "cudaSetDevice") && IsCall(plain, call + 1, "cudaLaunchHostFunc"));
  return notifies && IsRefusal(static_cast<cudaError_t>(code));
}

Expected ExpectedOf(const Played& plain, std::size_t call, int code) {
  if (IsIgnored(plain, call, code)) return Expected::kNothing;
  if (IsSticky(code)) return Expected::kDeviceLost;
  if (IsCall(plain, call, "cudaGetDeviceCount") && code == cudaErrorNoDevice) return Expected::kNoGpu;
  if (IsCall(plain, call, "cudaHostRegister")) return Expected::kNoMemory;
  if (IsCall(plain, call, "cuMemGetAddressRange")) return Expected::kBadMemory;
  if (IsCall(plain, call, "cudaIpcOpenMemHandle")) {
    // The handle is of GPU 1. If its name is not known, it does not matter that GPU 0, which is asked first,
    // has refused it.
    if (IsStep(plain, call, "open a handle")) return Expected::kBadMemory;
    const auto before = std::ranges::count(plain.calls.begin(), plain.calls.begin() + call,
                                           "cudaIpcOpenMemHandle", &CallSite::function);
    return before % 2 == 0 ? Expected::kNothing : Expected::kBadMemory;
  }
  if (code == cudaErrorMemoryAllocation &&
      (IsStep(plain, call, "open the backend") || IsCall(plain, call, "cudaMalloc"))) {
    return Expected::kNoMemory;
  }
  return IsRefusal(static_cast<cudaError_t>(code)) ? Expected::kLaunchRefused : Expected::kDeviceLost;
}

std::pair<absl::StatusCode, const char*> StatusFor(Expected expected) {
  switch (expected) {
    case Expected::kNothing:
      return {absl::StatusCode::kOk, ""};
    case Expected::kLaunchRefused:
      return {absl::StatusCode::kInternal, "LAUNCH_REFUSED"};
    case Expected::kDeviceLost:
      return {absl::StatusCode::kUnavailable, "DEVICE_LOST"};
    case Expected::kNoMemory:
      return {absl::StatusCode::kResourceExhausted, ""};
    case Expected::kBadMemory:
      return {absl::StatusCode::kInvalidArgument, "BAD_MEMORY"};
    case Expected::kNoGpu:
      return {absl::StatusCode::kNotFound, ""};
  }
  std::abort();
}

// After an error that stays, code that has yet to find out may only forget the error and ask whether it
// stays.
void ExpectLittleAfter(const Played& played, std::size_t call) {
  for (std::size_t i = call + 1; i < played.calls.size(); ++i) {
    const std::string& function = played.calls[i].function;
    EXPECT_TRUE(function == "cudaGetLastError" || function == "cudaPeekAtLastError" ||
                (function == "cudaStreamSynchronize" && played.calls[i - 1].function == "cudaGetLastError"))
        << ToString(played.calls[i]) << " after an error that stays";
  }
}

void ExpectRightStatus(const Played& plain, const Played& played, std::size_t call, int code) {
  const Expected expected = ExpectedOf(plain, call, code);
  if (expected == Expected::kNothing && IsSticky(code)) {
    // The next step that asks finds out.
    const bool is_last = plain.steps[call] + 1 == Scenario::Steps().size();
    EXPECT_EQ(IsDeviceLost(played.loss), !is_last) << "nobody says that the device is lost";
    return;
  }
  const auto [status_code, reason] = StatusFor(expected);
  EXPECT_EQ(played.status.code(), status_code) << played.status;
  EXPECT_EQ(ErrorReason(played.status), reason) << played.status;
  EXPECT_EQ(IsDeviceLost(played.loss), expected == Expected::kDeviceLost) << played.loss;
  if (expected == Expected::kNothing) return;
  EXPECT_EQ(played.failed, plain.steps[call]) << "another step than the one whose call has failed";
  if (expected == Expected::kDeviceLost || expected == Expected::kLaunchRefused) {
    EXPECT_EQ(ErrorDetails(played.status), (ErrorMetadata{{"cuda_error", absl::StrCat(code)}}));
  }
  if (IsSticky(code)) ExpectLittleAfter(played, call);
}

class CudaShimTest : public testing::Test {
 protected:
  const Played& plain() const { return plain_; }

  // Plays with these failures, and records which places have failed with which errors.
  Played Fail(const Failures& failures) {
    Played played = Play(failures);
    ++runs_;
    for (const auto& [call, code] : failures) {
      if (call <= played.calls.size()) failed_.insert({played.calls[call - 1], code});
    }
    return played;
  }

  // A call that is made only after another one has failed.
  struct LaterCall {
    Failures before;
    std::size_t call = 0;  // its number
  };
  using LaterCalls = std::map<std::pair<CallSite, std::size_t>, LaterCall>;  // one for each place and step

  // Every call fails alone.
  LaterCalls FailEveryCall() {
    const std::set<CallSite> usual(plain_.calls.begin(), plain_.calls.end());
    LaterCalls others;
    for (std::size_t call = 0; call < plain_.calls.size(); ++call) {
      for (const int code : Codes()) {
        const Failures failures = {{call + 1, code}};
        SCOPED_TRACE(Trace(failures));
        const Played played = Fail(failures);
        ExpectRightStatus(plain_, played, call, code);
        for (std::size_t i = call + 1; i < played.calls.size(); ++i) {
          if (usual.contains(played.calls[i])) continue;
          others.try_emplace({played.calls[i], plain_.steps[call]}, LaterCall{failures, i + 1});
        }
        if (HasFailure()) return others;  // otherwise thousands of the same would follow
      }
    }
    return others;
  }

  // This call fails, too. Nobody may be prevented from learning that the device ends what it was given.
  // Anything else that is called after a failure forgets it, or finds an error that stays.
  void FailLaterCall(const CallSite& site, const LaterCall& later) {
    for (const int code : Codes()) {
      Failures failures = later.before;
      failures[later.call] = code;
      SCOPED_TRACE(Trace(failures));
      const Played played = Fail(failures);
      EXPECT_EQ(IsDeviceLost(played.loss), IsSticky(code) || site.function == "cudaStreamSynchronize")
          << ToString(site) << ": " << played.loss;
    }
  }

  // Plays the run that the variable names.
  void PlayChosen(const std::string& chosen) {
    const std::optional<Failures> failures = ParseFailures(chosen);
    ASSERT_TRUE(failures.has_value()) << "WARPFOLD_CUDA_FAILURES must be N:CODE or N:CODE,M:CODE";
    SCOPED_TRACE(Trace(*failures));
    const Played played = Fail(*failures);
    const auto [first, code] = *failures->begin();
    const bool is_alone = failures->size() == 1 && first > 0 && first <= plain_.calls.size();
    if (is_alone) ExpectRightStatus(plain_, played, first - 1, code);
    std::printf("%s\nThe first step that failed said: %s\n", Trace(*failures).c_str(),
                played.status.ToString().c_str());
  }

  std::string Trace(const Failures& failures) const {
    const std::size_t call = failures.begin()->first - 1;
    return absl::StrCat("WARPFOLD_CUDA_FAILURES=", ToString(failures), ", first ",
                        call < plain_.calls.size() ? ToString(plain_.calls[call]) : "no call", ", to ",
                        call < plain_.calls.size() ? Scenario::Steps()[plain_.steps[call]].name : "nothing");
  }

  // The places in the sources that did not fail, and with which errors.
  std::vector<std::string> Missing(const std::set<CallSite>& sites) const {
    std::vector<std::string> missing;
    for (const CallSite& site : sites) {
      for (const int code : Codes()) {
        const bool only_tells = site.function == "cudaGetLastError" || site.function == "cudaPeekAtLastError";
        if (only_tells && !IsSticky(code)) continue;
        if (!failed_.contains({site, code})) missing.push_back(absl::StrCat(ToString(site), " with ", code));
      }
    }
    return missing;
  }

  const Played plain_ = Play({});
  std::size_t runs_ = 0;
  std::set<std::pair<CallSite, int>> failed_;
};

TEST_F(CudaShimTest, AllIsRightWhereNothingFails) {
  EXPECT_TRUE(plain().status.ok()) << plain().status;
  EXPECT_GT(plain().calls.size(), 300u);
}

TEST_F(CudaShimTest, WhateverFailsIsToldAndCostsNoMore) {
  if (const char* const chosen = std::getenv("WARPFOLD_CUDA_FAILURES"); chosen != nullptr) {
    return PlayChosen(chosen);
  }
  for (const auto& [where, later] : FailEveryCall()) {
    if (HasFailure()) return;
    FailLaterCall(where.first, later);
  }
  if (HasFailure()) return;
  const char* const root = std::getenv("WARPFOLD_SOURCE");
  const std::set<CallSite> sites = CallSitesOf(root == nullptr ? "." : root);
  EXPECT_THAT(Missing(sites), testing::IsEmpty());
  std::set<CallSite> reached;
  for (const auto& [site, code] : failed_) reached.insert(site);
  std::printf("%zu of %zu places that call CUDA failed, %zu calls with %zu errors each: %zu runs\n",
              reached.size(), sites.size(), plain().calls.size(), Codes().size(), runs_);
}

}  // namespace
}  // namespace warpfold::kernels::shim
