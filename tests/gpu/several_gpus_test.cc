// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A backend over several GPUs: slots of each reduce what lies on that GPU, on the host, or on several, with
// the bits of the host. Over one GPU that counts twice, and over all of them if there are several.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "kernels/cuda/cuda_backend.h"
#include "tests/kernels/expect_same.h"

namespace warpfold::kernels::cuda {
namespace {

constexpr std::uint64_t kElements = 50'000;
constexpr std::uint64_t kBytes = kElements * sizeof(double);

std::vector<std::vector<int>> Choices() {
  std::vector<std::vector<int>> choices = {{0, 0}};
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 1) {
    std::vector<int>& all = choices.emplace_back(devices);
    std::iota(all.begin(), all.end(), 0);
  }
  return choices;
}

class SeveralGpusTest : public testing::TestWithParam<std::vector<int>> {
 protected:
  SeveralGpusTest() : numbers_(kElements), all_(std::as_bytes(std::span(numbers_))) {
    std::mt19937_64 random(3);  // NOLINT(cert-msc51-cpp): the same numbers on every run
    std::lognormal_distribution<double> sizes(0, 20);
    std::ranges::generate(numbers_, [&] { return sizes(random); });
    ReductionSpec spec;
    spec.operators = {"sum", "argmin"};
    spec.element_type = ElementType::kFloat64;
    reduction_.emplace(ReductionPlan::Create(spec).value());
    backend_ = MakeCudaBackend(GetParam(), {.slots = 2, .slot_bytes = std::size_t{1} << 20}).value();
  }

  void ExpectSame(Slot& slot, const absl::Status& started, std::span<const std::byte> data) {
    ASSERT_TRUE(started.ok()) << started;
    const absl::StatusOr<SlotResult> result = slot.Wait();
    ASSERT_TRUE(result.ok()) << result.status();
    kernels::ExpectSame(*result->state, ReduceOnHost(*reduction_, 0, data));
  }

  Slot& SlotOf(int device) {
    for (const auto& slot : backend_->slots()) {
      if (slot->device() == device) return *slot;
    }
    std::abort();
  }

  // Memory of the device, with these bytes.
  std::unique_ptr<Memory> Keep(int device, std::span<const std::byte> bytes) {
    std::unique_ptr<Memory> memory = backend_->Allocate(device, bytes.size()).value();
    Slot& slot = SlotOf(device);
    std::ranges::copy(bytes, slot.staging().begin());
    EXPECT_TRUE(slot.StartStore(*memory, 0, bytes.size()).ok());
    EXPECT_TRUE(slot.Wait().ok());
    EXPECT_EQ(memory->device(), device);
    return memory;
  }

  std::vector<double> numbers_;
  const std::span<const std::byte> all_;
  std::optional<ReductionPlan> reduction_;
  std::unique_ptr<Backend> backend_;
};

TEST_P(SeveralGpusTest, EachHasItsSlots) {
  ASSERT_EQ(backend_->devices(), std::ssize(GetParam()));
  EXPECT_EQ(backend_->slots().size(), 2 * GetParam().size());
  for (std::size_t i = 0; i < backend_->slots().size(); ++i) {
    EXPECT_EQ(backend_->slots()[i]->device(), static_cast<int>(i % GetParam().size()));
  }
  EXPECT_EQ(backend_->device().rfind("cuda:0,cuda:", 0), 0u) << backend_->device();
}

TEST_P(SeveralGpusTest, ReduceWhatTheHostHas) {
  const std::unique_ptr<Memory> registered = backend_->Register(all_).value();
  EXPECT_EQ(registered->device(), std::nullopt);
  for (const auto& slot : backend_->slots()) {
    std::ranges::copy(all_, slot->staging().begin());
    ExpectSame(*slot, slot->Start(*reduction_, 0, kElements), all_);
    ExpectSame(*slot, slot->StartFrom(*reduction_, 0, kElements, *registered, 0), all_);
  }
}

TEST_P(SeveralGpusTest, ReducePieces) {
  constexpr std::size_t kPages = std::size_t{1} << 20;
  const std::unique_ptr<void, void (*)(void*)> pages(std::aligned_alloc(4096, kPages), std::free);
  const std::span<std::byte> memory(static_cast<std::byte*>(pages.get()), kPages);
  std::ranges::copy(all_, memory.begin());
  ASSERT_TRUE(backend_->OpenPieces(memory).ok());
  const HostPiece pieces[] = {memory.first(1000), memory.subspan(1000, kBytes - 1000)};
  for (const auto& slot : backend_->slots()) {
    ExpectSame(*slot, slot->StartPieces(*reduction_, 0, kElements, pieces), all_);
  }
  backend_.reset();  // before the pages
}

TEST_P(SeveralGpusTest, ReduceWhatEachKeeps) {
  for (int device = 0; device < backend_->devices(); ++device) {
    const std::unique_ptr<Memory> memory = Keep(device, all_);
    Slot& slot = SlotOf(device);
    ExpectSame(slot, slot.StartFrom(*reduction_, 0, kElements, *memory, 0), all_);
    const SegmentCut cut = {.segment_count = 1000, .length = 50};
    ASSERT_TRUE(slot.StartSegmentsFrom(*reduction_, cut, *memory, 0).ok());
    EXPECT_EQ(slot.WaitSegments().value().segment_count, 1000u);
  }
}

TEST_P(SeveralGpusTest, ReduceAcrossGpus) {
  for (const std::uint64_t border : {std::uint64_t{8}, std::uint64_t{4096}, std::uint64_t{100'004}}) {
    const std::unique_ptr<Memory> first = Keep(0, all_.first(border));
    const std::unique_ptr<Memory> second = Keep(backend_->devices() - 1, all_.subspan(border));
    const MemoryPart parts[] = {{.memory = first.get(), .byte_offset = 0, .byte_count = border},
                                {.memory = second.get(), .byte_offset = 0, .byte_count = kBytes - border}};
    for (const auto& slot : backend_->slots()) {
      ExpectSame(*slot, slot->StartAcross(*reduction_, 0, kElements, parts), all_);
    }
  }
}

// Whichever GPU has reduced the segments.
TEST_P(SeveralGpusTest, WriteResultsToMemoryOfOne) {
  ReductionSpec spec;
  spec.operators = {"sum"};
  spec.element_type = ElementType::kInt64;
  const ReductionPlan of_one = ReductionPlan::Create(spec).value();  // a value is its sum
  const int last = backend_->devices() - 1;
  constexpr std::uint64_t kSegments = 1000;
  constexpr std::uint64_t kValues = 3 * kSegments;
  for (const auto& slot : backend_->slots()) {
    const std::unique_ptr<Memory> memory = Keep(last, all_.first(kValues * sizeof(std::uint64_t)));
    SegmentCut cut = {.segment_count = kSegments, .length = 50};
    std::ranges::copy(all_, slot->staging().begin());
    ASSERT_TRUE(slot->StartSegments(*reduction_, cut).ok());
    const SegmentsResult returned = slot->WaitSegments().value();
    const std::vector<std::uint64_t> expected(returned.values.begin(), returned.values.end());
    cut.results = {.values = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(memory->data())),
                   .stride = kSegments,
                   .device = last};
    std::ranges::copy(all_, slot->staging().begin());
    ASSERT_TRUE(slot->StartSegments(*reduction_, cut).ok());
    ASSERT_TRUE(slot->WaitSegments().ok());
    Slot& owner = SlotOf(last);
    const SegmentCut each = {.segment_count = kValues, .length = 1};
    ASSERT_TRUE(owner.StartSegmentsFrom(of_one, each, *memory, 0).ok());
    EXPECT_TRUE(std::ranges::equal(owner.WaitSegments().value().values, expected));
  }
}

TEST_P(SeveralGpusTest, EachHasItsTelemetry) {
  const std::vector<DeviceTelemetry> all = backend_->Telemetry();
  if (all.empty()) GTEST_SKIP() << "the driver's management library is not there";
  ASSERT_EQ(all.size(), GetParam().size());
  for (const DeviceTelemetry& told : all) EXPECT_TRUE(told.memory_bytes.has_value()) << told.device;
}

INSTANTIATE_TEST_SUITE_P(Gpus, SeveralGpusTest, testing::ValuesIn(Choices()));

TEST(SeveralGpusRefusalsTest, AGpuThatIsNotThereIsNamed) {
  const absl::Status status = MakeCudaBackend(std::vector<int>{0, 63}, {.slots = 1}).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_NE(status.message().find("cuda:63"), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace warpfold::kernels::cuda
