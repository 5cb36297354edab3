// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the CPU reduces in pieces has the same bits as if it lay in one, wherever the pieces are cut: at a
// byte of an element, at a leaf, or both. And a slot reads none of the pieces once it has been started.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/segment_row.h"
#include "tests/kernels/elements.h"
#include "tests/kernels/expect_same.h"
#include "tests/kernels/random_array.h"
#include "tests/kernels/subjects.h"

namespace warpfold::kernels {
namespace {

constexpr std::size_t kSlotBytes = 512 << 10;

// Bytes in separate blocks of memory, each at another alignment, and some of them at their place in a slot's
// staging buffer.
class Scattered {
 public:
  // Pieces have up to `longest` bytes.
  Scattered(Slot& slot, std::span<const std::byte> bytes, std::size_t longest, Random& random) {
    for (std::size_t offset = 0; offset < bytes.size();) {
      const bool is_last = pieces_.size() + 1 == Slot::kMaxPieces;
      const std::size_t left = bytes.size() - offset;
      const std::size_t n = is_last ? left : std::min<std::size_t>(left, 1 + random() % longest);
      const auto piece = bytes.subspan(offset, n);
      if (random() % 4 == 0) {
        pieces_.push_back(slot.staging().subspan(offset, n));
        std::ranges::copy(piece, slot.staging().data() + offset);
      } else {
        const std::size_t shift = random() % 16;
        std::vector<std::byte>& block = blocks_.emplace_back(shift + n);
        std::ranges::copy(piece, block.data() + shift);
        pieces_.push_back(std::span(block).subspan(shift));
      }
      offset += n;
    }
  }

  std::span<const HostPiece> pieces() const { return pieces_; }

  // Overwrites everything except what lies in staging().
  void Overwrite() {
    for (std::vector<std::byte>& block : blocks_) std::ranges::fill(block, std::byte{0x5a});
  }

 private:
  std::vector<std::vector<std::byte>> blocks_;
  std::vector<HostPiece> pieces_;
};

// On the thread that starts a slot, or on the pool's threads.
enum class Where : std::uint8_t { kHere, kInPool };

Slot& SlotOf(Where where) {
  static auto* const here = new std::unique_ptr<Backend>(
      cpu::MakeCpuBackend({.slots = 1, .slot_bytes = kSlotBytes, .threads = 1, .inline_time = absl::Hours(1)},
                          cpu::BestInstructionSet())
          .value());
  static auto* const in_pool = new std::unique_ptr<Backend>(
      cpu::MakeCpuBackend(
          {.slots = 1, .slot_bytes = kSlotBytes, .threads = 2, .inline_time = absl::ZeroDuration()},
          cpu::BestInstructionSet())
          .value());
  return *(where == Where::kHere ? *here : *in_pool)->slots().front();
}

class CpuPiecesTest : public testing::TestWithParam<Subject> {
 protected:
  const ReductionPlan reduction_ = PlanOf(GetParam().spec);
  Random random_{GetParam().name.size()};
};

TEST_P(CpuPiecesTest, RangesHaveTheBitsOfOnePiece) {
  for (const Where where : {Where::kHere, Where::kInPool}) {
    Slot& slot = SlotOf(where);
    const std::uint64_t leaf = reduction_.leaf_elements();
    const std::uint64_t capacity = slot.Capacity(reduction_);
    for (const std::size_t longest : {std::size_t{3000}, std::size_t{50'000}, kSlotBytes}) {
      const std::uint64_t first = random_() % 100 * leaf;
      const std::uint64_t count = 1 + random_() % capacity;
      const std::vector<std::byte> data = RandomArray(reduction_, count, Flavour::kExtreme, random_);
      Scattered scattered(slot, data, longest, random_);
      ASSERT_TRUE(slot.StartPieces(reduction_, first, count, scattered.pieces()).ok());
      scattered.Overwrite();
      const absl::StatusOr<SlotResult> result = slot.Wait();
      ASSERT_TRUE(result.ok()) << result.status();
      ASSERT_NO_FATAL_FAILURE(ExpectSame(*result->state, ReduceOnHost(reduction_, first, data)))
          << count << " elements from " << first << " on, in pieces of up to " << longest << " bytes";
    }
  }
}

// Lengths of 1 to `longest` elements, or of none.
std::vector<std::uint64_t> RandomLengths(std::uint64_t elements, std::uint64_t longest, std::uint64_t most,
                                         Random& random) {
  std::vector<std::uint64_t> lengths;
  while (lengths.size() < most) {
    const std::uint64_t length = random() % 8 == 0 ? 0 : 1 + random() % longest;
    if (length > elements) break;
    lengths.push_back(length);
    elements -= length;
  }
  return lengths;
}

TEST_P(CpuPiecesTest, SegmentsHaveTheBitsOfOnePiece) {
  if (!CheckSegments(reduction_).ok()) return;
  const SegmentLayout layout(reduction_);
  for (const Where where : {Where::kHere, Where::kInPool}) {
    Slot& slot = SlotOf(where);
    const std::uint64_t all = kSlotBytes / reduction_.element_bytes();
    for (const std::uint64_t longest : {std::uint64_t{40}, std::uint64_t{6000}, all}) {
      std::vector<std::uint64_t> lengths = RandomLengths(
          all, longest, std::min<std::uint64_t>(slot.SegmentCapacity(reduction_), 300), random_);
      const bool alike = random_() % 2 == 0;
      if (alike) lengths.assign(std::min<std::uint64_t>(lengths.size(), all / longest), longest);
      SegmentCut cut = {.segment_count = lengths.size()};
      if (alike) cut.length = longest;
      if (!alike) cut.lengths = lengths;
      const std::vector<std::byte> data =
          RandomArray(reduction_, cut.ElementCount(), Flavour::kExtreme, random_);
      if (data.empty()) continue;
      Scattered scattered(slot, data, 50'000, random_);
      ASSERT_TRUE(slot.StartSegmentPieces(reduction_, cut, scattered.pieces()).ok());
      scattered.Overwrite();
      const absl::StatusOr<SegmentsResult> result = slot.WaitSegments();
      ASSERT_TRUE(result.ok()) << result.status();
      std::span<const std::byte> rest = data;
      for (std::uint64_t segment = 0; segment < cut.segment_count; ++segment) {
        const std::uint64_t bytes = lengths[segment] * reduction_.element_bytes();
        const SegmentRow row = RowOfSegment(layout, ReduceOnHost(reduction_, 0, rest.first(bytes)));
        rest = rest.subspan(bytes);
        for (std::size_t column = 0; column < row.values.size(); ++column) {
          ASSERT_EQ(result->Column(column)[segment], row.values[column])
              << "segment " << segment << " of " << lengths[segment] << " elements, column " << column;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, CpuPiecesTest, testing::ValuesIn(AllSubjects()),
                         [](const auto& subject) { return subject.param.name; });

// The bytes of staging() to which a start has written, as blocks of 4 KiB: a leaf's.
std::set<std::size_t> BlocksWritten(Slot& slot, const std::function<void()>& start) {
  std::ranges::fill(slot.staging(), std::byte{0x77});
  start();
  std::set<std::size_t> blocks;
  for (std::size_t i = 0; i < slot.staging().size(); ++i) {
    if (slot.staging()[i] != std::byte{0x77}) blocks.insert(i / 4096);
  }
  return blocks;
}

// Otherwise the bits would be the same, and time would be lost.
TEST(CpuPiecesTest, OnlyWhatACutDividesIsCopied) {
  Slot& slot = SlotOf(Where::kHere);
  ReductionSpec spec;
  spec.operators = {"sum"};
  spec.element_type = ElementType::kFloat32;
  const ReductionPlan sum = PlanOf(spec);
  const std::vector<std::byte> data(kSlotBytes);
  EXPECT_TRUE(slot.Reads(data));
  const std::size_t cut = 100 * 4096 + 10;
  const std::vector<HostPiece> pieces = {std::span(data).first(cut), std::span(data).subspan(cut)};
  EXPECT_EQ(BlocksWritten(slot,
                          [&] {
                            ASSERT_TRUE(slot.StartPieces(sum, 0, data.size() / 4, pieces).ok());
                            EXPECT_TRUE(slot.Wait().ok());
                          }),
            std::set<std::size_t>({100}));
  // Rows of 1 KiB; the cut divides one of them.
  EXPECT_EQ(BlocksWritten(slot,
                          [&] {
                            const SegmentCut rows = {.segment_count = kSlotBytes / 1024, .length = 256};
                            ASSERT_TRUE(slot.StartSegmentPieces(sum, rows, pieces).ok());
                            EXPECT_TRUE(slot.WaitSegments().ok());
                          }),
            std::set<std::size_t>({100}));
  // Of products of matrices with large states, the whole task of 128 KiB is copied: the fourth.
  spec.operators = {"matrix_product"};
  spec.element_type = ElementType::kFloat64;
  spec.shape = {.rows = 32, .columns = 32};
  const ReductionPlan product = PlanOf(spec);
  const auto written = BlocksWritten(slot, [&] {
    ASSERT_TRUE(slot.StartPieces(product, 0, data.size() / product.element_bytes(), pieces).ok());
    EXPECT_TRUE(slot.Wait().ok());
  });
  EXPECT_EQ(written.size(), 32u);
  EXPECT_EQ(*written.begin(), 96u);
}

TEST(CpuPiecesTest, AreStoredAtAnyByteAndNothingBesideThem) {
  Random random(1);
  const auto backend =
      cpu::MakeCpuBackend({.slots = 1, .slot_bytes = kSlotBytes, .threads = 1}, cpu::BestInstructionSet());
  ASSERT_TRUE(backend.ok()) << backend.status();
  Slot& slot = *(*backend)->slots().front();
  EXPECT_FALSE(slot.KeepsPieces());
  for (const std::size_t offset : {0, 1, 33, 4099}) {
    std::vector<std::byte> expected(offset, std::byte{0});
    std::vector<std::byte> data(100'000);
    std::ranges::generate(data, [&] { return static_cast<std::byte>(random()); });
    expected.insert(expected.end(), data.begin(), data.end());
    expected.resize(expected.size() + 100);
    const absl::StatusOr<std::unique_ptr<Memory>> memory = (*backend)->Allocate(0, expected.size());
    ASSERT_TRUE(memory.ok()) << memory.status();
    Scattered scattered(slot, data, 5000, random);
    ASSERT_TRUE(slot.StartStorePieces(**memory, offset, scattered.pieces()).ok());
    scattered.Overwrite();
    ASSERT_TRUE(slot.Wait().ok());
    EXPECT_TRUE(std::ranges::equal(std::span((*memory)->data(), expected.size()), expected)) << offset;
  }
}

}  // namespace
}  // namespace warpfold::kernels
