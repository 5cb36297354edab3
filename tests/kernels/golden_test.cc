// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The checked-in answers of make_golden.py, which knows nothing of this code: values by exact numbers and
// NumPy, and partial states as they travel, which must never change within v1. The folder is named by the
// environment variable WARPFOLD_GOLDEN.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/reduction.h"
#include "nlohmann/json.hpp"
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

TEST(GoldenTest, ValuesAreThoseOfNumpyAndExactNumbers) {
  const Json golden = ReadGolden("values.json");
  ASSERT_GT(golden.size(), 100u);
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
      const absl::StatusOr<Reduction> reduction = Reduction::Create(spec);
      ASSERT_TRUE(reduction.ok()) << reduction.status();
      const PartialState state = ReduceOnHost(*reduction, 0, std::as_bytes(std::span(data)));
      EXPECT_EQ(Describe(state.Finish(0)), value.get<std::string>());
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

template <class T>
void Append(T x, std::vector<std::byte>* bytes) {
  const auto* const begin = reinterpret_cast<const std::byte*>(&x);
  bytes->insert(bytes->end(), begin, begin + sizeof x);
}

std::vector<std::byte> FrozenArray(ElementType type, std::uint64_t count) {
  const std::vector<std::uint32_t> numbers = PseudoRandom(count, 2026);
  const std::vector<std::uint32_t> others = PseudoRandom(count, 7);
  std::vector<std::byte> bytes;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double x = std::ldexp(static_cast<double>(numbers[i] % (1 << 24)) - (1 << 23),
                                static_cast<int>(numbers[i] % 41) - 40);
    if (type == ElementType::kFloat32) {
      Append(static_cast<float>(x), &bytes);
    } else if (type == ElementType::kFloat64) {
      Append(x, &bytes);
    } else {
      Append(numbers[i], &bytes);
      Append(others[i], &bytes);
    }
  }
  bytes.resize(count * ElementTypeBytes(type));
  return bytes;
}

TEST(GoldenTest, StatesAreFrozen) {
  const Json golden = ReadGolden("states.json");
  ASSERT_GT(golden.size(), 80u);
  for (const Json& frozen : golden) {
    SCOPED_TRACE(frozen["operator"].get<std::string>() + " of " + frozen["type"].get<std::string>());
    ReductionSpec spec;
    spec.operators = {frozen["operator"].get<std::string>()};
    spec.element_type = TypeOf(frozen);
    spec.shape = {frozen["rows"], frozen["columns"]};
    if (frozen["modulus"] != 0) spec.modulus = frozen["modulus"].get<std::uint64_t>();
    const absl::StatusOr<Reduction> reduction = Reduction::Create(spec);
    ASSERT_TRUE(reduction.ok()) << reduction.status();
    const std::uint64_t count = frozen["count"];
    const std::vector<std::byte> data = FrozenArray(spec.element_type, count * spec.shape.entries());
    const PartialState state = ReduceOnHost(*reduction, frozen["first"], data);
    Json nodes = Json::array();
    for (std::size_t i = 0; i < state.nodes().size(); ++i) {
      nodes.push_back({state.nodes()[i].level, state.nodes()[i].index, Hex(OperatorStates(state, i, 0))});
    }
    EXPECT_EQ(nodes, frozen["nodes"]);
    EXPECT_EQ(Describe(state.Finish(0)), frozen["value"].get<std::string>());
  }
}

}  // namespace
}  // namespace warpfold::kernels
