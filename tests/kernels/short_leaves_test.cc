// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The CPU's loops, with every instruction set that this machine has, at every place where a vector may begin
// or end: leaves of any length, at any address. The contract suite has the longer arrays.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/host_reduce.h"
#include "tests/kernels/device_under_test.h"
#include "tests/kernels/elements.h"
#include "tests/kernels/expect_same.h"
#include "tests/kernels/subjects.h"

namespace warpfold::kernels {
namespace {

class ShortLeavesTest : public testing::TestWithParam<Subject> {
 protected:
  // `count` elements, `offset` bytes after the start of a cache line, up to the end of what is allocated.
  void Check(std::uint64_t count, std::size_t offset, Flavour flavour) {
    SCOPED_TRACE(testing::Message() << count << " elements at offset " << offset);
    const std::vector<std::byte> elements =
        RandomElements(GetParam().spec.element_type, count, flavour, random_);
    // Not std::aligned_alloc, whose sizes are multiples of the alignment: nothing may lie after the elements.
    void* address = nullptr;
    ASSERT_EQ(posix_memalign(&address, kLineBytes, offset + elements.size()), 0);
    const std::unique_ptr<void, void (*)(void*)> memory(address, std::free);
    const std::span data(static_cast<std::byte*>(memory.get()) + offset, elements.size());
    std::copy(elements.begin(), elements.end(), data.begin());
    const reference::Result expected = GetParam().Reference(0, elements);
    for (const cpu::InstructionSet& isa : cpu::InstructionSets()) {
      if (!isa.runs_here) continue;
      SCOPED_TRACE(std::string(isa.name));
      ASSERT_NO_FATAL_FAILURE(ExpectSame(cpu::ReduceRange(isa, reduction_, 0, data), 0, expected));
    }
  }

  static constexpr std::size_t kLineBytes = 64;
  const ReductionPlan reduction_ = ReductionPlan::Create(GetParam().spec).value();
  Random random_;
};

TEST_P(ShortLeavesTest, OfEveryLength) {
  // If few lengths are tested, all short ones are among them: vectors end anywhere in them, so they go wrong
  // first.
  constexpr std::uint64_t kShort = 70;
  const std::uint64_t step = SmallScale() ? 61 : 1;
  std::size_t turn = 0;
  for (std::uint64_t count = 1; count < reduction_.leaf_elements(); count += count < kShort ? 1 : step) {
    ASSERT_NO_FATAL_FAILURE(Check(count, turn % 5, kFlavours[turn % std::size(kFlavours)]));
    ++turn;
  }
}

TEST_P(ShortLeavesTest, AtEveryAddress) {
  for (std::size_t offset = 0; offset < kLineBytes; ++offset) {
    const Flavour flavour = kFlavours[offset % std::size(kFlavours)];
    ASSERT_NO_FATAL_FAILURE(Check(reduction_.leaf_elements(), offset, flavour));
  }
}

std::vector<Subject> OverScalars() {
  std::vector<Subject> subjects = AllSubjects();
  std::erase_if(subjects, [](const Subject& subject) {
    return subject.spec.shape.is_matrix() || subject.spec.wrap_overflow;  // these only finish differently
  });
  return subjects;
}

INSTANTIATE_TEST_SUITE_P(Every, ShortLeavesTest, testing::ValuesIn(OverScalars()),
                         [](const auto& subject) { return subject.param.name; });

}  // namespace
}  // namespace warpfold::kernels
