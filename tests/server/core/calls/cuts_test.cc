// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// However a stream is cut into messages, slices and slots, its partial state has the same bits. Runs on the
// backend that WARPFOLD_TEST_DEVICE names, which is cpu unless it says cuda:N.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "kernels/devices.h"
#include "tests/server/drive_session.h"
#include "tests/server/piece_heap.h"
#include "tests/server/requests.h"

namespace warpfold::server {
namespace {

constexpr int kRandomCuts = 10'000;

std::unique_ptr<kernels::Backend> BackendUnderTest() {
  const char* const name = std::getenv("WARPFOLD_TEST_DEVICE");
  std::string note;
  return kernels::MakeBackend(name != nullptr ? name : "cpu", {.slots = 2, .slot_bytes = 64 << 10}, &note)
      .value();
}

struct Array {
  v1::ReduceRequest header;
  std::string data;
  std::size_t elements;
};

// Floats of very different sizes: their sum rounds differently in every other order.
template <typename T>
Array Floats(std::size_t elements, v1::ElementType type, std::uint64_t first_element) {
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same array on every run
  std::lognormal_distribution<T> sizes(0, 20);
  std::vector<T> values(elements);
  for (T& value : values) value = sizes(random);
  Array array{Header({v1::OPERATOR_SUM, v1::OPERATOR_MEAN, v1::OPERATOR_ARGMIN}, type), {}, elements};
  array.header.mutable_header()->set_first_element(first_element);
  array.header.mutable_header()->set_return_state(true);
  array.data.assign(reinterpret_cast<const char*>(values.data()), elements * sizeof(T));
  return array;
}

Array Matrices(std::size_t elements) {
  std::mt19937 random(2);  // NOLINT(cert-msc51-cpp)
  Array array{Header({v1::OPERATOR_MATRIX_PRODUCT}, v1::ELEMENT_TYPE_UINT32), {}, elements};
  v1::ReductionSpec& spec = *array.header.mutable_header()->mutable_spec();
  spec.mutable_matrix_shape()->set_rows(3);
  spec.mutable_matrix_shape()->set_columns(3);
  spec.set_modulus(4294967291);
  array.header.mutable_header()->set_return_state(true);
  for (std::size_t i = 0; i < elements * 9; ++i) {
    const std::uint32_t entry = random();
    array.data.append(reinterpret_cast<const char*>(&entry), sizeof entry);
  }
  return array;
}

class CutsTest : public testing::Test {
 protected:
  CutsTest() : backend_(BackendUnderTest()), service_(*backend_, Limits(), [] { return absl::UnixEpoch(); }) {
    // A device that takes pieces reads half of the messages where they lie.
    const absl::Status opened = backend_->OpenPieces(heap_.memory());
    EXPECT_TRUE(opened.ok() || absl::IsUnimplemented(opened)) << opened;
  }

  // The partial state of the array, whose bytes are sent in chunks that end at `cuts`. Each message arrives
  // in slices; with `slow`, others want all slots between two messages.
  std::string State(const Array& array, const std::vector<std::size_t>& cuts, bool slow = false) {
    std::vector<v1::ReduceRequest> requests = {array.header};
    for (const ByteSlice piece : Cut(array.data, cuts)) requests.push_back(Chunk(piece.data(), piece.size()));
    requests.push_back(Commit(array.elements, array.data.size()));
    std::vector<Message> messages;
    for (const v1::ReduceRequest& request : requests) {
      std::string bytes = request.SerializeAsString();
      const std::size_t slice = random_() % (bytes.size() + 1);
      const std::size_t middle = (slice + bytes.size()) / 2;
      messages.push_back(random_() % 2 == 0 ? MessageOf(std::move(bytes), {slice, middle})
                                            : heap_.MessageIn(bytes, {slice, middle}, random_() % 16));
    }
    const absl::StatusOr<v1::Reduction> reduction = DriveSession(service_, pool_, messages, [&] {
      if (slow) RevokeLoans(pool_);
    });
    EXPECT_TRUE(reduction.ok()) << reduction.status();
    EXPECT_EQ(pool_.free(), pool_.size());
    return reduction.ok() ? reduction->state().SerializeAsString() : "";
  }

  PieceHeap heap_;
  std::unique_ptr<kernels::Backend> backend_;
  Service service_;
  SlotPool pool_{SlotsOf(*backend_)};
  std::mt19937 random_{3};  // NOLINT(cert-msc51-cpp): the same cuts on every run
};

TEST_F(CutsTest, EveryPairOfCutsOf64Bytes) {
  const Array array = Floats<float>(16, v1::ELEMENT_TYPE_FLOAT32, 0);
  ASSERT_EQ(array.data.size(), 64u);
  const std::string whole = State(array, {});
  ASSERT_FALSE(whole.empty());
  for (std::size_t first = 0; first <= 64; ++first) {
    for (std::size_t second = first; second <= 64; ++second) {
      ASSERT_EQ(State(array, {first, second}), whole) << first << ", " << second;
    }
  }
}

TEST_F(CutsTest, RandomCutsOfLongerStreams) {
  const Array arrays[] = {Floats<float>(30'011, v1::ELEMENT_TYPE_FLOAT32, 7 * 1024),
                          Floats<double>(17'003, v1::ELEMENT_TYPE_FLOAT64, 512), Matrices(2'501)};
  for (const Array& array : arrays) {
    service_.cpu_crossover_bytes = 0;
    const std::string whole = State(array, {});
    ASSERT_FALSE(whole.empty());
    for (int round = 0; round < kRandomCuts / 3 + 1; ++round) {
      std::vector<std::size_t> cuts(random_() % (round % 8 == 0 ? 200 : 6));
      for (std::size_t& cut : cuts) cut = random_() % (array.data.size() + 1);
      std::sort(cuts.begin(), cuts.end());
      // Some arrays never use a slot, some change over to slots on their way.
      service_.cpu_crossover_bytes = round % 3 != 0 ? 0 : random_() % (2 * array.data.size());
      ASSERT_EQ(State(array, cuts, round % 4 == 0), whole) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace warpfold::server
