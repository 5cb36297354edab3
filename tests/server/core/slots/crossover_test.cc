// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/slots/crossover.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <tuple>

#include "absl/strings/match.h"
#include "kernels/segments.h"
#include "proto/shared/steady_time.h"
#include "tests/server/fake_backend.h"

namespace warpfold::server {
namespace {

kernels::ReductionPlan Of(std::vector<std::string> operators, kernels::ElementType type,
                          kernels::ElementShape shape = {}) {
  kernels::ReductionSpec spec;
  spec.operators = std::move(operators);
  spec.element_type = type;
  spec.shape = shape;
  return kernels::ReductionPlan::Create(spec).value();
}

// On a clock that moves by `device` between two looks if a slot was started meanwhile, and otherwise by what
// `host` returns for the number of starts so far.
Crossovers MeasureWith(const std::function<absl::Duration(int starts)>& host, absl::Duration device) {
  FakeBackend backend(1, std::size_t{64} << 10);
  absl::Time now = absl::UnixEpoch();
  int starts = 0;
  const Clock clock = [&] {
    now += backend.behaviour.starts == starts ? host(starts) : device;
    starts = backend.behaviour.starts;
    return now;
  };
  return Crossovers::Measure(backend, clock).value();
}

Crossovers MeasureWith(absl::Duration host, absl::Duration device) {
  return MeasureWith([=](int) { return host; }, device);
}

constexpr auto kFloat32 = kernels::ElementType::kFloat32;
constexpr auto kUint32 = kernels::ElementType::kUint32;

TEST(CrossoversTest, AreWhereTheDeviceWins) {
  // The host takes 10 us for 16 KiB, so that it has reduced 64 KiB when the device is back.
  const Crossovers crossovers = MeasureWith(absl::Microseconds(10), absl::Microseconds(40));
  EXPECT_EQ(crossovers.BytesFor(Of({"sum"}, kFloat32)), 64u << 10);
  EXPECT_EQ(crossovers.BytesFor(Of({"logsumexp"}, kFloat32)), 64u << 10);
  EXPECT_EQ(crossovers.BytesFor(Of({"affine_compose"}, kUint32, {1, 2})), 64u << 10);
  // The host takes its operators one after the other.
  EXPECT_EQ(crossovers.BytesFor(Of({"sum", "min"}, kFloat32)), 32u << 10);
  EXPECT_EQ(crossovers.BytesFor(Of({"sum", "min", "max", "mean"}, kFloat32)), 16u << 10);
}

// On a clock on which the host is eight times as slow for every second measured reduction.
TEST(CrossoversTest, AModulusIsMeasuredApart) {
  const auto host = [](int starts) { return absl::Microseconds(starts / 3 % 2 == 0 ? 10 : 80); };
  const Crossovers crossovers = MeasureWith(host, absl::Microseconds(40));
  for (const char* const op : {"matrix_product", "affine_compose"}) {
    const kernels::ElementShape shape =
        std::string(op) == "matrix_product" ? kernels::ElementShape{2, 2} : kernels::ElementShape{1, 2};
    kernels::ReductionSpec spec = Of({op}, kUint32, shape).spec();
    spec.modulus = 12'345;
    const std::uint64_t bytes = crossovers.BytesFor(kernels::ReductionPlan::Create(spec).value());
    EXPECT_GT(bytes, 0u);
    EXPECT_NE(bytes, crossovers.BytesFor(Of({op}, kUint32, shape)));
  }
}

// On a clock on which the host is eight times as slow while one operator over one type is measured.
TEST(CrossoversTest, AreEachOperatorsOwn) {
  constexpr int kStartsOfEach = 3;
  const auto device = absl::Microseconds(40);
  constexpr int kBefore = 20 * kStartsOfEach;  // scalars are among the first that are measured
  const auto host = [&](int starts) {
    return absl::Microseconds(starts >= kBefore && starts < kBefore + kStartsOfEach ? 80 : 10);
  };
  const Crossovers crossovers = MeasureWith(host, device);
  EXPECT_GT(crossovers.warm_up().operators, 300);
  int slow = 0;
  for (std::size_t i = 0; i < kernels::OperatorNames().size(); ++i) {
    for (int t = 0; t < kElementTypeCount; ++t) {
      if (!kernels::OperatorTakesScalars(static_cast<int>(i), ElementTypeAt(t))) continue;
      const std::uint64_t bytes =
          crossovers.BytesFor(Of({std::string(kernels::OperatorNames()[i])}, ElementTypeAt(t)));
      if (bytes == 64u << 10) continue;
      EXPECT_EQ(bytes, 8u << 10);
      ++slow;
    }
  }
  EXPECT_EQ(slow, 1);
}

TEST(CrossoversTest, EveryOperatorAndTypeHasOne) {
  const Crossovers crossovers = MeasureWith(absl::Microseconds(10), absl::Microseconds(40));
  const auto names = kernels::OperatorNames();
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (int t = 0; t < kElementTypeCount; ++t) {
      const auto type = ElementTypeAt(t);
      if (!kernels::OperatorTakesScalars(static_cast<int>(i), type)) continue;
      EXPECT_GT(crossovers.BytesFor(Of({std::string(names[i])}, type)), 0u) << names[i];
    }
  }
  for (std::uint32_t d = 1; d <= kernels::kMaxMatrixDimension; ++d) {
    EXPECT_GT(crossovers.BytesFor(Of({"matrix_product"}, kUint32, {d, d})), 0u) << d;
  }
}

TEST(CrossoversTest, StayWithinTheirBounds) {
  const auto sum = Of({"sum"}, kFloat32);
  EXPECT_EQ(MeasureWith(absl::Seconds(1), absl::Microseconds(1)).BytesFor(sum), Crossovers::kSmallestBytes);
  EXPECT_EQ(MeasureWith(absl::Microseconds(1), absl::Seconds(1)).BytesFor(sum), Crossovers::kLargestBytes);
  // With a clock that stands still, and with nothing measured.
  EXPECT_LE(MeasureWith(absl::ZeroDuration(), absl::ZeroDuration()).BytesFor(sum), Crossovers::kLargestBytes);
  EXPECT_EQ(Crossovers().BytesFor(sum), 0u);
}

TEST(CrossoversTest, ADeviceThatFailsIsNotServed) {
  FakeBackend backend(1, std::size_t{256} << 10);
  backend.behaviour.fail_start = true;
  EXPECT_EQ(Crossovers::Measure(backend, SteadyNow).status(), DeviceLost());
  backend.behaviour.fail_start = false;
  backend.behaviour.fail_wait = true;
  EXPECT_EQ(Crossovers::Measure(backend, SteadyNow).status(), DeviceLost());
}

// First calls wait for no device's kernels, and a device that fails is not served.
TEST(CrossoversTest, EveryDeviceIsWarmedUp) {
  FakeBackend one(2, std::size_t{256} << 10, 1);
  FakeBackend two(4, std::size_t{256} << 10, 2);
  const auto of_one = Crossovers::Measure(one, SteadyNow);
  const auto of_two = Crossovers::Measure(two, SteadyNow);
  ASSERT_TRUE(of_one.ok() && of_two.ok());
  EXPECT_EQ(two.behaviour.starts, 2 * one.behaviour.starts);
  EXPECT_EQ(of_two->warm_up().operators, of_one->warm_up().operators);
  two.behaviour.lost_device = 1;
  EXPECT_EQ(Crossovers::Measure(two, SteadyNow).status(), DeviceLost());
}

// Whatever call there may be, its kernel has been launched before the first one comes.
TEST(CrossoversTest, EveryKindOfCallIsWarmedUp) {
  // Operator, type, rows of a matrix or 0, whether NaN is ignored, whether over segments.
  using Kind = std::tuple<std::string, kernels::ElementType, std::uint32_t, bool, bool>;
  std::set<Kind> seen;
  FakeBackend backend(1);
  backend.behaviour.on_start = [&seen](const kernels::ReductionPlan& reduction, bool of_segments) {
    const kernels::ReductionSpec& spec = reduction.spec();
    seen.insert({spec.operators[0], spec.element_type, spec.shape.rows, spec.ignore_nan, of_segments});
  };
  ASSERT_TRUE(Crossovers::Measure(backend, SteadyNow).ok());
  EXPECT_EQ(backend.behaviour.misuses, 0);
  EXPECT_EQ(backend.behaviour.piece_starts, 1);
  int kinds = 0;
  for (const absl::string_view name : kernels::OperatorNames()) {
    for (int t = 0; t < kElementTypeCount; ++t) {
      const absl::string_view type_name = ElementTypeName(ElementTypeAt(t));
      for (const std::uint32_t rows : {0u, 2u}) {
        for (const bool ignore_nan : {false, true}) {
          kernels::ReductionSpec spec;
          spec.operators = {std::string(name)};
          spec.element_type = ElementTypeAt(t);
          spec.shape = {rows, rows};
          spec.ignore_nan = ignore_nan;
          const auto reduction = kernels::ReductionPlan::Create(spec);
          // Integers have no NaN to ignore.
          if (!reduction.ok() || (ignore_nan && !absl::StrContains(type_name, "float"))) continue;
          for (const bool of_segments : {false, true}) {
            if (of_segments && !kernels::CheckSegments(*reduction).ok()) continue;
            ++kinds;
            EXPECT_TRUE(seen.contains({spec.operators[0], spec.element_type, rows, ignore_nan, of_segments}))
                << name << " " << type_name << " " << rows << ignore_nan << of_segments;
          }
        }
      }
    }
  }
  EXPECT_GT(kinds, 1000);
}

// A GPU has separate kernels for some dimensions, and others with a modulus.
TEST(CrossoversTest, EveryShapeOfMatrixIsWarmedUpWithAModulusAndWithout) {
  using Kind = std::tuple<std::string, kernels::ElementType, std::uint32_t, std::uint32_t, bool>;
  std::set<Kind> seen;
  FakeBackend backend(1);
  backend.behaviour.on_start = [&seen](const kernels::ReductionPlan& reduction, bool) {
    const kernels::ReductionSpec& spec = reduction.spec();
    seen.insert({spec.operators[0], spec.element_type, spec.shape.rows, spec.shape.columns,
                 spec.modulus.has_value()});
  };
  ASSERT_TRUE(Crossovers::Measure(backend, SteadyNow).ok());
  std::size_t with_modulus = 0;
  for (const absl::string_view name : {"matrix_product", "affine_compose"}) {
    for (int t = 0; t < kElementTypeCount; ++t) {
      for (std::uint32_t rows = 1; rows <= kernels::kMaxMatrixDimension; ++rows) {
        for (std::uint32_t columns = 1; columns <= kernels::kMaxMatrixDimension; ++columns) {
          for (const bool has_modulus : {false, true}) {
            kernels::ReductionSpec spec;
            spec.operators = {std::string(name)};
            spec.element_type = ElementTypeAt(t);
            spec.shape = {rows, columns};
            if (has_modulus) spec.modulus = 5;
            if (!kernels::ReductionPlan::Create(spec).ok()) continue;
            with_modulus += has_modulus ? 1 : 0;
            EXPECT_TRUE(seen.contains({spec.operators[0], spec.element_type, rows, columns, has_modulus}))
                << name << " " << ElementTypeName(spec.element_type) << " " << rows << " x " << columns
                << has_modulus;
          }
        }
      }
    }
  }
  EXPECT_EQ(with_modulus, 4 * kernels::kMaxMatrixDimension + 4);
}

}  // namespace
}  // namespace warpfold::server
