// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The checked-in answers of make_golden.py, which knows nothing of this code: values by exact numbers and
// NumPy, and partial states as they travel, which must never change within v1. The folder is named by the
// environment variable WARPFOLD_GOLDEN. Where arithmetic rounds, "near:1.25:1e-15" stands for a double.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/operators/portable.h"
#include "kernels/reduction.h"
#include "nlohmann/json.hpp"
#include "tests/kernels/elements.h"
#include "tests/kernels/expect_same.h"

namespace warpfold::kernels {
namespace {

using Json = nlohmann::json;

Json ReadGolden(const std::string& name) {
  const char* const folder = std::getenv("WARPFOLD_GOLDEN");
  EXPECT_NE(folder, nullptr) << "WARPFOLD_GOLDEN names the folder of the golden files";
  std::ifstream file(std::string(folder == nullptr ? "" : folder) + "/" + name);
  EXPECT_TRUE(file.good()) << name;
  return Json::parse(file);
}

ElementType TypeOf(const Json& golden) {
  return ElementTypeByName(golden["type"].get<std::string>()).value();  // NOLINT(bugprone-unchecked-*)
}

// "near:1.25:1e-15": whether the hexadecimal bits are those of a double no further than that from 1.25.
bool IsNear(const std::string& bits, const std::string& near) {
  const std::vector<std::string> parts = absl::StrSplit(near, ':');
  const double x = BitCast<double>(std::uint64_t{std::strtoull(bits.c_str(), nullptr, 16)});
  return std::fabs(x - std::strtod(parts[1].c_str(), nullptr)) <= std::strtod(parts[2].c_str(), nullptr);
}

void ExpectGolden(const std::string& answer, const std::string& golden) {
  const std::vector<std::string> got = absl::StrSplit(answer, ' ');
  std::vector<std::string> wanted;
  for (const absl::string_view word : absl::StrSplit(golden, ' ')) {
    const std::size_t i = wanted.size();
    if (!absl::StartsWith(word, "near:")) {
      wanted.emplace_back(word);
    } else if (i + 1 < got.size() && got[i] == "double" && IsNear(got[i + 1], std::string(word))) {
      wanted.insert(wanted.end(), {got[i], got[i + 1]});
    } else {
      wanted.insert(wanted.end(), {"double", std::string(word)});
    }
  }
  EXPECT_EQ(got, wanted);
}

TEST(GoldenTest, ValuesAreThoseOfNumpyAndExactNumbers) {
  const Json golden = ReadGolden("values.json");
  ASSERT_GT(golden.size(), 300u);
  for (const Json& array : golden) {
    const std::string data = absl::HexStringToBytes(array["data"].get<std::string>());
    for (const auto& [request, value] : array["values"].items()) {
      SCOPED_TRACE(request + " of " + array["type"].get<std::string>() + " " +
                   array["array"].get<std::string>());
      const std::vector<std::string> words = absl::StrSplit(request, ' ');
      ReductionSpec spec;
      spec.operators = {words[0]};
      spec.element_type = TypeOf(array);
      spec.ignore_nan = words.back() == "ignore_nan";
      spec.wrap_overflow = words.back() == "wrap";
      spec.ddof = words.back() == "ddof" ? 1 : 0;
      const absl::StatusOr<ReductionPlan> reduction = ReductionPlan::Create(spec);
      ASSERT_TRUE(reduction.ok()) << reduction.status();
      const PartialState state = ReduceOnHost(*reduction, 0, std::as_bytes(std::span(data)));
      ExpectGolden(Describe(state.Finish(0)), value.get<std::string>());
    }
  }
}

// `count` numbers of 32 bits: Knuth's linear congruential generator, the high half.
std::vector<std::uint32_t> PseudoRandom(std::uint64_t count, std::uint64_t seed) {
  std::vector<std::uint32_t> numbers;
  for (std::uint64_t i = 0; i < count; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    numbers.push_back(static_cast<std::uint32_t>(seed >> 32));
  }
  return numbers;
}

// Floats of many magnitudes, without more bits than their type has, of which each seventh may be NaN;
// integers of any bits.
std::vector<std::byte> FrozenArray(ElementType type, std::uint64_t count, bool with_nan) {
  const bool half = type == ElementType::kFloat16 || type == ElementType::kBfloat16;
  const bool is_float = half || type == ElementType::kFloat32 || type == ElementType::kFloat64;
  const int bits = type == ElementType::kFloat16 ? 11 : type == ElementType::kBfloat16 ? 8 : 24;
  const std::vector<std::uint32_t> numbers = PseudoRandom(count, 2026);
  const std::vector<std::uint32_t> others = PseudoRandom(count, 7);
  std::vector<double> floats;
  std::vector<std::uint32_t> integers;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double x = static_cast<double>(numbers[i] % (1u << bits)) - (1 << (bits - 1));
    const auto octave = static_cast<int>(half ? numbers[i] % 13 : numbers[i] % 41);
    floats.push_back(with_nan && i % 7 == 3 ? std::nan("") : std::ldexp(x, octave - (half ? 12 : 40)));
    integers.insert(integers.end(), {numbers[i], others[i]});
  }
  if (is_float) return ElementsOf(type, floats);
  const auto bytes = std::as_bytes(std::span(integers));
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count * ElementTypeBytes(type))};
}

TEST(GoldenTest, StatesAreFrozen) {
  const Json golden = ReadGolden("states.json");
  ASSERT_GT(golden.size(), 300u);
  for (const Json& frozen : golden) {
    SCOPED_TRACE(frozen["operator"].get<std::string>() + " of " + frozen["type"].get<std::string>());
    ReductionSpec spec;
    spec.operators = {frozen["operator"].get<std::string>()};
    spec.element_type = TypeOf(frozen);
    spec.shape = {frozen["rows"], frozen["columns"]};
    if (frozen["modulus"] != 0) spec.modulus = frozen["modulus"].get<std::uint64_t>();
    spec.ignore_nan = frozen["ignore_nan"];
    const absl::StatusOr<ReductionPlan> reduction = ReductionPlan::Create(spec);
    ASSERT_TRUE(reduction.ok()) << reduction.status();
    const std::uint64_t count = frozen["count"];
    const std::vector<std::byte> data =
        FrozenArray(spec.element_type, count * spec.shape.entries(), spec.ignore_nan);
    const PartialState state = ReduceOnHost(*reduction, frozen["first"], data);
    Json nodes = Json::array();
    for (std::size_t i = 0; i < state.nodes().size(); ++i) {
      nodes.push_back({state.nodes()[i].level, state.nodes()[i].index, Hex(OperatorState(state, i, 0))});
    }
    EXPECT_EQ(nodes, frozen["nodes"]);
    EXPECT_EQ(nodes.empty() ? Hex(OperatorState(state, 0, 0)) : "", frozen["range"].get<std::string>());
    ExpectGolden(Describe(state.Finish(0)), frozen["value"].get<std::string>());
  }
}

}  // namespace
}  // namespace warpfold::kernels
