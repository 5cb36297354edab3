// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/cuda_shim/play.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/cuda_status.h"

namespace warpfold::kernels::shim {
namespace {

class Player {
 public:
  explicit Player(const Failures& failures) : failures_(failures) {}

  Played Play() {
    Shim::Get().Begin(failures_);
    {
      Scenario scenario;
      for (std::size_t i = 0; i < Scenario::Steps().size(); ++i) {
        if (!PlayStep(scenario, i)) break;
        played_.steps.resize(Shim::Get().calls().size(), i);
      }
    }
    played_.calls = Shim::Get().calls();
    played_.steps.resize(played_.calls.size(), Scenario::Steps().size() - 1);
    CheckEnd();
    Shim::Get().Begin({});  // the next run finds GPUs that work
    return std::move(played_);
  }

 private:
  // False if the scenario ends: nothing works without a backend.
  bool PlayStep(Scenario& scenario, std::size_t i) {
    const Scenario::Step& step = Scenario::Steps()[i];
    const std::size_t before = Shim::Get().calls().size();
    absl::Status status = (scenario.*step.run)();
    if (!played_.loss.ok()) {
      EXPECT_EQ(Shim::Get().calls().size(), before)
          << step.name << ": calls CUDA after the loss of the device";
      EXPECT_EQ(status.ok(), step.answer == Scenario::Answer::kIgnored) << step.name << ": " << status;
      return true;
    }
    for (int again = 0; !status.ok(); ++again) {
      if (!played_.failed.has_value()) {
        played_.failed = i;
        played_.status = status;
      }
      if (IsDeviceLost(status)) return CheckLoss(scenario, step, status);
      // Each failure costs at most one request.
      EXPECT_LT(again, std::ssize(failures_)) << step.name << ": " << status;
      if (again >= std::ssize(failures_)) return scenario.backend() != nullptr;
      EXPECT_FALSE(Shim::Get().HasWork()) << step.name << ": work is left after " << status;
      status = scenario.backend() == nullptr ? absl::OkStatus() : scenario.ReduceOnEverySlot();
      if (status.ok()) status = (scenario.*step.run)();
    }
    return true;
  }

  bool CheckLoss(Scenario& scenario, const Scenario::Step& step, const absl::Status& status) {
    played_.loss = status;
    if (scenario.backend() == nullptr) return false;
    EXPECT_FALSE(scenario.backend()->fault().ok())
        << step.name << ": the backend does not know of " << status;
    return true;
  }

  void CheckEnd() const {
    EXPECT_THAT(Shim::Get().misuses(), testing::IsEmpty());
    const bool is_sticky =
        std::ranges::any_of(failures_, [](const auto& failure) { return IsSticky(failure.second); });
    if (is_sticky || !played_.loss.ok()) return;
    const auto kept = std::ranges::count_if(failures_, [&](const auto& failure) {
      return failure.first <= played_.calls.size() && IsRelease(played_.calls[failure.first - 1]);
    });
    EXPECT_LE(std::ssize(Shim::Get().Leaks()), kept) << absl::StrJoin(Shim::Get().Leaks(), "\n");
  }

  const Failures failures_;
  Played played_;
};

}  // namespace

std::string ToString(const Failures& failures) {
  return absl::StrJoin(failures, ",", absl::PairFormatter(":"));
}

std::optional<Failures> ParseFailures(const std::string& text) {
  Failures failures;
  for (const absl::string_view failure : absl::StrSplit(text, ',')) {
    const std::vector<std::string> numbers = absl::StrSplit(failure, ':');
    std::size_t call = 0;
    int code = 0;
    if (numbers.size() != 2 || !absl::SimpleAtoi(numbers[0], &call) || !absl::SimpleAtoi(numbers[1], &code)) {
      return std::nullopt;
    }
    failures[call] = code;
  }
  return failures;
}

bool IsRelease(const CallSite& site) {
  static constexpr std::array kReleases = {"cudaFree",          "cudaFreeHost",     "cudaHostUnregister",
                                           "cudaStreamDestroy", "cudaEventDestroy", "cudaIpcCloseMemHandle"};
  return std::ranges::count(kReleases, site.function) > 0;
}

Played Play(const Failures& failures) { return Player(failures).Play(); }

}  // namespace warpfold::kernels::shim
