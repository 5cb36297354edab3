// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Measures how long the first call of each kind takes, which loads the kernel's code, and how long the second
// one takes. It prints JSON lines: for each kind of call one over all operators and element types that have
// it, and one for each of these operators over its element types.
//
//   first_calls cuda:0          in a process that has done nothing yet
//   first_calls cuda:0 --warm   in one that was warmed up like a server at its start (Crossovers::Measure)
//
// With --warm it also prints the result of that measurement: for each operator, the number of bytes from
// which on arrays go to the device.
//
// Without --warm the kinds come in the order in which they are printed: scalars and whole matrices, which
// Crossovers::Measure has always run at a start, and then the others, which warm_up.h also runs.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "kernels/devices.h"
#include "kernels/operators/table.h"
#include "kernels/segments.h"
#include "proto/shared/steady_time.h"
#include "server/core/slots/crossover.h"

namespace warpfold {
namespace {

constexpr std::uint64_t kSegmentCount = 8;

enum class Way { kRange, kPieces, kSegments };

struct Kind {
  const char* name;
  Way way = Way::kRange;
  bool ignores_nan = false;
  kernels::ElementShape shape = {};
  kernels::Algorithm algorithm = kernels::Algorithm::kAuto;
};

constexpr kernels::ElementShape kMatrix = {2, 2};
constexpr Kind kKinds[] = {
    {.name = "scalars"},
    {.name = "matrices 2 x 2", .shape = kMatrix},
    {.name = "matrices 32 x 32", .shape = {32, 32}},
    {.name = "rows of 1 x 2", .shape = {1, 2}},  // as affine_compose takes
    {.name = "scalars, NaN ignored", .ignores_nan = true},
    {.name = "matrices 2 x 2, NaN ignored", .ignores_nan = true, .shape = kMatrix},
    {.name = "segments", .way = Way::kSegments},
    {.name = "segments, NaN ignored", .way = Way::kSegments, .ignores_nan = true},
    {.name = "pieces", .way = Way::kPieces},
    {.name = "textbook: last_block", .algorithm = kernels::Algorithm::kLastBlock},
};

// Scalars, rows, small and large matrices. Larger ones have the crossover of 16 x 16.
constexpr kernels::ElementShape kCrossoverShapes[] = {{}, {1, 2}, {1, 1}, {2, 2}, {8, 8}, {16, 16}};
constexpr std::uint64_t kCrossoverModulus = 65521;  // the modulus does not matter; it must fit all types

// Runs over one leaf in the slot's staging buffer; false if the slot fails or has no such call.
bool Call(kernels::Slot& slot, const kernels::ReductionPlan& reduction, Way way) {
  const std::uint64_t elements = reduction.leaf_elements();
  const kernels::HostPiece leaf = slot.staging().first(reduction.leaf_bytes());
  const std::vector<kernels::HostPiece> pieces = {leaf.first(leaf.size() / 2), leaf.subspan(leaf.size() / 2)};
  switch (way) {
    case Way::kRange:
      return slot.Start(reduction, 0, elements).ok() && slot.Wait().ok();
    case Way::kPieces:
      return slot.StartPieces(reduction, 0, elements, pieces).ok() && slot.Wait().ok();
    case Way::kSegments:
      return slot.StartSegments(reduction,
                                {.segment_count = kSegmentCount, .length = elements / kSegmentCount})
                 .ok() &&
             slot.WaitSegments().ok();
  }
  return false;
}

struct Times {
  std::vector<double> first_us;
  std::vector<double> second_us;
  double slowest_us = 0;
  std::string slowest;

  void Add(double first, double second, const kernels::ReductionSpec& spec) {
    first_us.push_back(first);
    second_us.push_back(second);
    if (first <= slowest_us) return;
    slowest_us = first;
    slowest = absl::StrCat(spec.operators[0], " ", ElementTypeName(spec.element_type));
  }
};

double Median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

double TimeUs(kernels::Slot& slot, const kernels::ReductionPlan& reduction, Way way) {
  const absl::Time start = absl::Now();
  if (!Call(slot, reduction, way)) return -1;
  return absl::ToDoubleMicroseconds(absl::Now() - start);
}

struct OfOperator {
  std::string name;
  Times times;
};

// Also adds each call's times to `all`.
std::vector<OfOperator> TimeKind(kernels::Slot& slot, const Kind& kind, Times& all) {
  std::vector<OfOperator> operators;
  for (const absl::string_view name : kernels::OperatorNames()) {
    Times times;
    for (int t = 0; t < kElementTypeCount; ++t) {
      kernels::ReductionSpec spec;
      spec.operators = {std::string(name)};
      spec.element_type = ElementTypeAt(t);
      spec.shape = kind.shape;
      spec.ignore_nan = kind.ignores_nan;
      spec.algorithm = kind.algorithm;
      const absl::StatusOr<kernels::ReductionPlan> reduction = kernels::ReductionPlan::Create(spec);
      if (!reduction.ok()) continue;
      if (kind.way == Way::kSegments && !kernels::CheckSegments(*reduction).ok()) continue;
      const double first = TimeUs(slot, *reduction, kind.way);
      if (first < 0) continue;
      const double second = TimeUs(slot, *reduction, kind.way);
      times.Add(first, second, spec);
      all.Add(first, second, spec);
    }
    if (!times.first_us.empty()) operators.push_back({std::string(name), std::move(times)});
  }
  return operators;
}

// `subject` is the text of the line's first members.
void Print(const std::string& subject, const Times& times) {
  double sum = 0;
  for (const double us : times.first_us) sum += us;
  std::printf(
      "{%s,\"calls\":%zu,\"first_us\":{\"sum\":%.0f,\"median\":%.1f,\"slowest\":%.1f,"
      "\"slowest_call\":\"%s\"},\"second_us\":{\"median\":%.1f,\"slowest\":%.1f}}\n",
      subject.c_str(), times.first_us.size(), sum, Median(times.first_us), times.slowest_us,
      times.slowest.c_str(), Median(times.second_us), *std::ranges::max_element(times.second_us));
}

// Prints one line for the operator: its crossovers over the elements that it takes, in bytes.
void PrintCrossovers(const server::Crossovers& crossovers, const std::string& device, const std::string& op) {
  std::vector<std::string> bytes;
  for (int type = 0; type < kElementTypeCount; ++type) {
    for (const kernels::ElementShape shape : kCrossoverShapes) {
      for (const bool has_modulus : {false, true}) {
        kernels::ReductionSpec spec;
        spec.operators = {op};
        spec.element_type = ElementTypeAt(type);
        spec.shape = shape;
        if (has_modulus) spec.modulus = kCrossoverModulus;
        const auto reduction = kernels::ReductionPlan::Create(spec);
        if (!reduction.ok() || crossovers.BytesFor(*reduction) == 0) continue;
        if (shape.is_matrix() && !reduction->operators()[0].entry->whole_matrix) continue;  // as for scalars
        const std::string matrices =
            shape.is_matrix() ? absl::StrCat(" ", shape.rows, "x", shape.columns) : "";
        bytes.push_back(absl::StrCat("\"", ElementTypeName(spec.element_type), matrices,
                                     has_modulus ? " mod" : "", "\":", crossovers.BytesFor(*reduction)));
      }
    }
  }
  std::printf("{\"crossovers\":\"%s\",\"device\":\"%s\",\"bytes\":{%s}}\n", op.c_str(), device.c_str(),
              absl::StrJoin(bytes, ",").c_str());
}

int Run(const std::string& device, bool warm) {
  std::string note;
  const auto backend = kernels::MakeBackend(device, {.slots = 1}, &note);
  if (!backend.ok()) {
    std::fprintf(stderr, "%s\n", backend.status().ToString().c_str());
    return 1;
  }
  kernels::Slot& slot = *(*backend)->slots().front();
  std::ranges::fill(slot.staging(), std::byte{0});
  if (warm) {
    const auto crossovers = server::Crossovers::Measure(**backend, SteadyNow);
    if (!crossovers.ok()) return 1;
    const server::Crossovers::WarmUp& warm_up = crossovers->warm_up();
    std::printf("{\"warm_up\":true,\"operators\":%d,\"ms\":%.1f,\"other_calls\":%d,\"others_ms\":%.1f}\n",
                warm_up.operators, absl::ToDoubleMilliseconds(warm_up.took), warm_up.other_calls,
                absl::ToDoubleMilliseconds(warm_up.others_took));
    for (const absl::string_view op : kernels::OperatorNames()) {
      PrintCrossovers(*crossovers, (*backend)->device(), std::string(op));
    }
  }
  for (const Kind& kind : kKinds) {
    Times all;
    const std::vector<OfOperator> operators = TimeKind(slot, kind, all);
    if (operators.empty()) continue;
    const std::string subject = absl::StrCat("\"warm\":", warm ? "true" : "false", ",\"device\":\"",
                                             (*backend)->device(), "\",\"kind\":\"", kind.name, "\"");
    Print(subject, all);
    for (const OfOperator& one : operators) {
      Print(absl::StrCat(subject, ",\"operator\":\"", one.name, "\""), one.times);
    }
  }
  return 0;
}

}  // namespace
}  // namespace warpfold

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3 || (argc == 3 && std::strcmp(argv[2], "--warm") != 0)) {
    std::fprintf(stderr, "first_calls DEVICE [--warm]\n");
    return 2;
  }
  return warpfold::Run(argv[1], argc == 3);
}
