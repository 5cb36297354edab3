// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Arrays in device memory with every size of unit that a launch plans, and with edges on both sides, compared
// with the CPU's bits. WARPFOLD_TEST_SCALE=small keeps them short enough for a sanitizer.
#include "kernels/cuda/device_reducer.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/cuda/cuda_status.h"
#include "tests/gpu/long_products.h"
#include "tests/kernels/elements.h"
#include "tests/kernels/expect_same.h"

namespace warpfold::kernels::cuda {
namespace {

int LargestLog2() {
  const char* const scale = std::getenv("WARPFOLD_TEST_SCALE");
  return scale != nullptr && std::strcmp(scale, "small") == 0 ? 24 : 30;
}

struct Subject {
  std::string op;
  ElementType type;
  std::uint32_t dimension = 0;
  std::uint64_t modulus = 0;
};

bool IsAffine(const Subject& subject) { return subject.op == "affine_compose"; }

// The host takes a long time for large matrices, and for residues.
int LargestLog2(const Subject& subject) {
  return subject.dimension > 8 || subject.modulus > 0 ? std::min(LargestLog2(), 26) : LargestLog2();
}

// The elements to repeat for products of float32 and float64, so that a long product stays in range. There
// are none for other subjects.
template <class T>
std::vector<std::byte> LongProductPeriod(const Subject& subject) {
  std::mt19937_64 random(13);
  std::vector<T> numbers;
  if (IsAffine(subject)) {
    numbers = LongProductMaps<T>(random);
  } else if (subject.op == "matrix_product") {
    numbers = LongProductMatrices<T>(subject.dimension, random);
  } else if (subject.op == "product") {
    numbers = LongProductFactors<T>(random);
  }
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}
// The elements to be repeated for this subject; nothing for random ones. Integers to be multiplied are odd,
// so that their product is never 0 modulo 2^64; float16 has no NaN.
std::vector<std::byte> PeriodOf(const Subject& subject) {
  constexpr std::uint64_t kPeriod = 100003;
  const bool is_integer =
      std::string_view(ElementTypeName(subject.type)).find("int") != std::string_view::npos;
  if ((subject.op == "product" && is_integer) || subject.type == ElementType::kFloat16) {
    Random random(17);
    return RandomElements(subject.type, kPeriod, Flavour::kTame, random);
  }
  if (subject.type == ElementType::kFloat32) return LongProductPeriod<float>(subject);
  if (subject.type == ElementType::kFloat64) return LongProductPeriod<double>(subject);
  return {};
}

class DeviceReducerTest : public testing::TestWithParam<Subject> {
 protected:
  static constexpr std::uint64_t kSlack = 64 << 10;

  // One array for all tests, on both sides: the same random numbers, except for subjects that have a period.
  static void SetUpTestSuite() {
    const std::size_t bytes = (std::size_t{1} << LargestLog2()) + kSlack;
    host_ = new std::vector<std::byte>(bytes);
    ASSERT_TRUE(StatusOf(cudaMalloc(reinterpret_cast<void**>(&device_), bytes), "cudaMalloc").ok());
    reducer_ = DeviceReducer::Create(bytes).value().release();
    ASSERT_NO_FATAL_FAILURE(Fill({}));
  }
  // Fills the array by repeating the period, or at random if the period is empty.
  static void Fill(const std::vector<std::byte>& period) {
    std::mt19937_64 random(7);
    for (std::size_t i = 0; period.empty() && i + 8 <= host_->size(); i += 8) {
      // Elements have both signs, so that subarrays differ, and exponents near those of 1, so that float sums
      // round at every step.
      const std::uint64_t word = (random() & 0x800fffff807fffffu) | 0x3fe000003f000000u;
      std::memcpy(host_->data() + i, &word, sizeof word);
    }
    for (std::size_t i = 0; !period.empty() && i < host_->size(); i += period.size()) {
      std::memcpy(host_->data() + i, period.data(), std::min(period.size(), host_->size() - i));
    }
    ASSERT_EQ(cudaMemcpy(device_, host_->data(), host_->size(), cudaMemcpyHostToDevice), cudaSuccess);
    is_random_ = period.empty();
  }
  static void TearDownTestSuite() {
    delete reducer_;
    delete host_;
    cudaFree(device_);
  }

  // Compares the first `count` elements of the array, as elements from a leaf on, with the host.
  static void Check(const ReductionPlan& reduction, std::uint64_t first_leaf, std::uint64_t count) {
    const std::uint64_t first = first_leaf * reduction.leaf_elements();
    if (count == 0 || count * reduction.element_bytes() > host_->size()) return;
    ASSERT_GE(reducer_->Capacity(reduction), count);
    ASSERT_TRUE(reducer_->Launch(reduction, first, device_, count, cudaStreamPerThread).ok());
    ASSERT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
    const PartialState state = reducer_->Collect();
    const PartialState expected =
        ReduceOnHost(reduction, first, std::span(*host_).first(count * reduction.element_bytes()));
    SCOPED_TRACE(testing::Message() << count << " elements from leaf " << first_leaf);
    ASSERT_NO_FATAL_FAILURE(ExpectSame(state, expected));
  }

  static inline std::vector<std::byte>* host_ = nullptr;
  static inline std::byte* device_ = nullptr;
  static inline bool is_random_ = false;
  static inline DeviceReducer* reducer_ = nullptr;
};

TEST_F(DeviceReducerTest, RefusesWhatItCannotReadAndGoesOn) {
  ReductionSpec spec;
  spec.operators = {"sum"};
  spec.element_type = ElementType::kInt32;
  // A reducer takes no more matrices than Create was asked for, and the array has that many.
  spec.shape = {2, 2};
  const ReductionPlan reduction = ReductionPlan::Create(spec).value();
  const auto reducer = DeviceReducer::Create(64 << 10).value();
  const std::uint64_t capacity = reducer->Capacity(reduction);
  EXPECT_EQ(reducer->Launch(reduction, 0, device_, capacity + 1, cudaStreamPerThread).code(),
            absl::StatusCode::kInternal);
  EXPECT_EQ(reducer->Launch(reduction, 0, device_ + 4, 1, cudaStreamPerThread).code(),
            absl::StatusCode::kInternal)
      << "not aligned";
  ASSERT_TRUE(reducer->Launch(reduction, 0, device_, capacity, cudaStreamPerThread).ok());
  ASSERT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
  EXPECT_EQ(reducer->Collect().element_count(), capacity);
}

TEST_P(DeviceReducerTest, BitsEqualTheHostsAtEverySizeOfUnit) {
  ReductionSpec spec;
  spec.operators = {GetParam().op};
  spec.element_type = GetParam().type;
  spec.shape = {IsAffine(GetParam()) ? 1 : GetParam().dimension, GetParam().dimension};
  if (GetParam().modulus > 0) spec.modulus = GetParam().modulus;
  const ReductionPlan reduction = ReductionPlan::Create(spec).value();
  const std::vector<std::byte> period = PeriodOf(GetParam());
  if (!period.empty() || !is_random_) {
    ASSERT_NO_FATAL_FAILURE(Fill(period));
  }
  for (int log2 = 12; log2 <= LargestLog2(GetParam()); log2 += log2 < 24 ? 4 : 2) {
    const std::uint64_t count = (std::uint64_t{1} << log2) / reduction.element_bytes();
    const std::uint64_t leaf = reduction.leaf_elements();
    ASSERT_NO_FATAL_FAILURE(Check(reduction, 0, count));
    ASSERT_NO_FATAL_FAILURE(Check(reduction, 1, count + 5));
    ASSERT_NO_FATAL_FAILURE(Check(reduction, 2047, count + 5));
    if (log2 < 16 || log2 > 24) continue;
    // Units that begin and end at all places within groups of four, whether a unit has 4 or 8 leaves.
    ASSERT_NO_FATAL_FAILURE(Check(reduction, 2, count + 10 * leaf));
    ASSERT_NO_FATAL_FAILURE(Check(reduction, 8, count + 14 * leaf));
    ASSERT_NO_FATAL_FAILURE(Check(reduction, 8, count + 16 * leaf));
    ASSERT_NO_FATAL_FAILURE(Check(reduction, 11, count - 3 * leaf));
    ASSERT_NO_FATAL_FAILURE(Check(reduction, 21, count - leaf));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Some, DeviceReducerTest,
    testing::Values(
        Subject{"sum", ElementType::kInt32}, Subject{"sum", ElementType::kInt64},
        Subject{"sum", ElementType::kFloat32}, Subject{"sum", ElementType::kFloat64},
        Subject{"sum", ElementType::kInt8}, Subject{"min", ElementType::kInt8},
        Subject{"max", ElementType::kBfloat16}, Subject{"product", ElementType::kInt32},
        Subject{"exact_sum", ElementType::kFloat32}, Subject{"exact_sum", ElementType::kFloat64},
        Subject{"describe", ElementType::kInt64}, Subject{"first", ElementType::kFloat32},
        Subject{"last", ElementType::kInt16}, Subject{"argmin", ElementType::kFloat64},
        Subject{"product", ElementType::kFloat64}, Subject{"min", ElementType::kFloat32},
        Subject{"argmax", ElementType::kFloat32}, Subject{"argmin", ElementType::kInt64},
        Subject{"matrix_product", ElementType::kUint32, 4},
        Subject{"matrix_product", ElementType::kFloat32, 3},
        Subject{"matrix_product", ElementType::kUint64, 8},
        Subject{"affine_compose", ElementType::kFloat32, 2},
        Subject{"affine_compose", ElementType::kInt64, 2, 998244353},
        Subject{"max_subarray_sum", ElementType::kFloat32}, Subject{"max_subarray_sum", ElementType::kInt64},
        Subject{"variance", ElementType::kFloat32}, Subject{"variance", ElementType::kInt32},
        Subject{"variance", ElementType::kInt8}, Subject{"variance", ElementType::kFloat16},
        Subject{"describe", ElementType::kUint16}, Subject{"describe", ElementType::kFloat32},
        Subject{"product", ElementType::kInt8}, Subject{"product", ElementType::kUint16},
        Subject{"max_subarray_sum", ElementType::kInt32}, Subject{"minmax", ElementType::kFloat64},
        Subject{"sum_of_squares", ElementType::kInt64}, Subject{"product", ElementType::kInt64},
        Subject{"affine_compose", ElementType::kInt32, 2}, Subject{"matrix_product", ElementType::kInt64, 2},
        Subject{"matrix_product", ElementType::kFloat32, 2},
        Subject{"matrix_product", ElementType::kUint32, 2, 998244353},
        Subject{"matrix_product", ElementType::kUint32, 16},
        Subject{"matrix_product", ElementType::kInt32, 16, 998244353},
        Subject{"matrix_product", ElementType::kFloat32, 24},
        Subject{"matrix_product", ElementType::kFloat64, 32},
        Subject{"matrix_product", ElementType::kInt32, 32},
        Subject{"matrix_product", ElementType::kUint32, 32, 4294967291},
        Subject{"sum", ElementType::kFloat32, 1}, Subject{"sum", ElementType::kInt8, 32},
        Subject{"sum", ElementType::kFloat32, 2}),
    [](const auto& subject) {
      return subject.param.op + "_" + std::string(ElementTypeName(subject.param.type)) + "_" +
             std::to_string(subject.param.dimension) + (subject.param.modulus > 0 ? "_modulo" : "");
    });

// The ticket wraps by itself: thousands of launches of different grids on one workspace.
TEST_F(DeviceReducerTest, TheTicketServesOneLaunchAfterAnother) {
  ReductionSpec spec;
  spec.operators = {"sum", "max", "mean"};
  spec.element_type = ElementType::kFloat64;
  const ReductionPlan reduction = ReductionPlan::Create(spec).value();
  std::mt19937_64 random(11);
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t count = 1 + random() % 200000;
    ASSERT_TRUE(reducer_->Launch(reduction, 0, device_, count, cudaStreamPerThread).ok());
    ASSERT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
    const PartialState expected = ReduceOnHost(reduction, 0, std::span(*host_).first(count * 8));
    const PartialState state = reducer_->Collect();
    for (std::size_t op = 0; op < 3; ++op) {
      ASSERT_EQ(state.Finish(op)->entries[0].double_value, expected.Finish(op)->entries[0].double_value);
    }
  }
}

}  // namespace
}  // namespace warpfold::kernels::cuda
