// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Arrays that lie on several devices: the bits are the same as on one, wherever the arrays are cut, and no
// slot of one device is ever started on memory of another.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "server/core/slots/array_writer.h"
#include "tests/server/drive_segments.h"
#include "tests/server/drive_session.h"
#include "tests/server/fake_backend.h"
#include "tests/server/requests.h"

namespace warpfold::server {
namespace {

constexpr std::uint64_t kLeaf = 4096;

std::string RandomBytes(std::size_t count, std::uint32_t seed) {
  std::minstd_rand random(seed);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random() >> 8);
  return bytes;
}

// Doubles of many magnitudes, whose sum depends on the order of additions.
std::string RandomDoubles(std::size_t count) {
  std::minstd_rand random(5);
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) {
    const double x = std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 60) - 30);
    bytes.append(reinterpret_cast<const char*>(&x), sizeof(x));
  }
  return bytes;
}

// A service on this many devices, with two slots on each.
class Devices {
 public:
  explicit Devices(int devices)
      : backend_(2 * devices, 16 * kLeaf, devices),
        service_(backend_, Limits{.max_stream_bytes = 1 << 24}, [] { return absl::UnixEpoch(); }) {
    service_.residents.Open(backend_.AllocateOfEach(1 << 22),
                            {.owner_bytes = 1 << 24, .part_bytes = 8 * kLeaf});
  }
  ~Devices() { EXPECT_EQ(backend_.behaviour.misuses, 0); }

  FakeBackend& backend() { return backend_; }
  const Service& service() { return service_; }
  SlotPool& pool() { return pool_; }

  // Returns the token of a resident array, which comes in chunks of an odd length.
  std::string Put(const std::string& data) {
    ResidentArrays::Request request;
    request.layout = {kernels::ElementType::kUint8, {}};
    request.byte_count = request.element_count = data.size();
    array_ = service_.residents.Reserve(request, service_.clock()).value();
    // As bytes, so that tests may name any range as any type.
    auto bytes = std::make_shared<const NamedMemory>(array_->parts());
    ArrayWriter writer(PartySlots(pool_), bytes, [] {});
    for (std::size_t at = 0; at < data.size(); at += 10'007) {
      ByteSlice chunk = AsBytes(data).subspan(at, std::min<std::size_t>(10'007, data.size() - at));
      while (!chunk.empty()) {
        chunk = chunk.subspan(writer.Append(chunk, nullptr).value());
        pool_.Poll();
      }
    }
    while (!writer.TryFinish().value()) pool_.Poll();
    return service_.memories.Add(bytes);
  }
  const NamedMemory& array() const { return *array_; }

 private:
  FakeBackend backend_;
  Service service_;
  SlotPool pool_{SlotsOf(backend_)};
  std::shared_ptr<const NamedMemory> array_;
};

v1::ReduceRequest Reference(v1::ReduceRequest request, const std::string& token, std::uint64_t offset,
                            std::uint64_t count) {
  v1::ArrayReference& reference = *request.mutable_header()->mutable_reference();
  reference.set_token(token);
  reference.set_byte_offset(offset);
  reference.set_element_count(count);
  return request;
}

// The part of the results that does not depend on where the array lies.
std::string ResultsOf(const absl::StatusOr<v1::Reduction>& reduction) {
  if (!reduction.ok()) return reduction.status().ToString();
  v1::Reduction kept;
  *kept.mutable_results() = reduction->results();
  *kept.mutable_state() = reduction->state();
  return kept.SerializeAsString();
}

std::string Reduce(Devices& devices, const v1::ReduceRequest& header) {
  return ResultsOf(DriveSession(devices.service(), devices.pool(), {MessageOf(header)}));
}

class SeveralDevicesTest : public testing::TestWithParam<int> {
 protected:
  Devices one_{1};
  Devices devices_{GetParam()};
};

TEST_P(SeveralDevicesTest, ArraysHaveTheBitsOfOneDevice) {
  const std::size_t elements = 50 * kLeaf / 8 + 3;
  const std::string data = RandomDoubles(elements);
  const std::string token = devices_.Put(data);
  const std::string of_one = one_.Put(data);
  ASSERT_EQ(devices_.array().parts().size(), static_cast<std::size_t>(GetParam()));
  const std::uint64_t border = devices_.array().parts()[0].byte_count;
  v1::ReduceRequest header =
      Header({v1::OPERATOR_SUM, v1::OPERATOR_ARGMAX, v1::OPERATOR_VARIANCE}, v1::ELEMENT_TYPE_FLOAT64);
  header.mutable_header()->set_return_state(true);
  const std::uint64_t starts[] = {
      0,          1,          8,      24,         4088,       4096,          border - kLeaf,
      border - 8, border - 1, border, border + 1, border + 8, border + kLeaf};
  for (const std::uint64_t start : starts) {
    for (const std::uint64_t count : {std::uint64_t{1}, std::uint64_t{2}, kLeaf / 8, kLeaf / 8 + 1,
                                      3 * kLeaf / 8, (data.size() - start) / 8}) {
      EXPECT_EQ(Reduce(devices_, Reference(header, token, start, count)),
                Reduce(one_, Reference(header, of_one, start, count)))
          << count << " elements from byte " << start;
    }
  }
  EXPECT_GT(devices_.backend().behaviour.starts_across, 0);
  EXPECT_EQ(one_.backend().behaviour.starts_across, 0);
}

TEST_P(SeveralDevicesTest, LeavesOfAlignedArraysLieOnOneDevice) {
  const std::string data = RandomDoubles(50 * kLeaf / 8);
  const std::string token = devices_.Put(data);
  const v1::ReduceRequest header = Header({v1::OPERATOR_SUM}, v1::ELEMENT_TYPE_FLOAT64);
  Reduce(devices_, Reference(header, token, 0, data.size() / 8));
  Reduce(devices_, Reference(header, token, 3 * kLeaf, data.size() / 8 - 3 * kLeaf / 8));
  EXPECT_EQ(devices_.backend().behaviour.starts_across, 0);
}

// Elements of 36 bytes: neither leaves nor the parts between borders hold a whole number of them.
TEST_P(SeveralDevicesTest, MatricesAcrossBorders) {
  const std::string data = RandomBytes(std::size_t{36} * 6001, 1);
  const std::string token = devices_.Put(data);
  const std::string of_one = one_.Put(data);
  v1::ReduceRequest header = Header({v1::OPERATOR_MATRIX_PRODUCT}, v1::ELEMENT_TYPE_INT32);
  header.mutable_header()->mutable_spec()->mutable_matrix_shape()->set_rows(3);
  header.mutable_header()->mutable_spec()->mutable_matrix_shape()->set_columns(3);
  for (const std::uint64_t start : {0, 36, 100}) {
    const std::uint64_t count = (data.size() - start) / 36;
    EXPECT_EQ(Reduce(devices_, Reference(header, token, start, count)),
              Reduce(one_, Reference(header, of_one, start, count)));
  }
}

TEST_P(SeveralDevicesTest, SegmentsAcrossBorders) {
  const std::string data = RandomBytes(50 * kLeaf, 2);
  const std::string token = devices_.Put(data);
  const std::uint64_t border = devices_.array().parts()[0].byte_count / 4;
  const std::uint64_t all = data.size() / 4;
  const std::vector<std::vector<std::uint64_t>> cuts = {
      {border, all - border},
      {border - 1, 2, all - border - 1},
      {border - 1, 0, 1, 0, 3, all - border - 3, 0},
      {all},
      {7, border - 10, 2, 2000, all - border - 1999, 0, 0},
  };
  for (const std::vector<std::uint64_t>& lengths : cuts) {
    SegmentedArray array = {
        .header = SegmentsHeader({v1::OPERATOR_SUM, v1::OPERATOR_ARGMIN}), .data = data, .lengths = lengths};
    array.header.mutable_reference()->set_token(token);
    array.header.mutable_reference()->set_element_count(all);
    array.header.set_expected_segment_count(lengths.size());
    std::vector<v1::ReduceSegmentsRequest> requests(1);
    *requests[0].mutable_header() = array.header;
    requests.emplace_back().mutable_lengths()->set_lengths(lengths.data(), lengths.size() * 8);
    const auto rows = DriveSegments(devices_.service(), devices_.pool(), requests);
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_EQ(*rows, array.Expected());
  }
  SegmentedArray rows = {.header = SegmentsHeader({v1::OPERATOR_SUM}), .data = data, .lengths = {}};
  rows.lengths.assign(all / 25, 25);
  rows.data.resize(rows.lengths.size() * 25 * 4);
  rows.header.set_segment_length(25);
  rows.header.mutable_reference()->set_token(token);
  rows.header.mutable_reference()->set_element_count(rows.element_count());
  std::vector<v1::ReduceSegmentsRequest> requests(1);
  *requests[0].mutable_header() = rows.header;
  const auto reduced = DriveSegments(devices_.service(), devices_.pool(), requests);
  ASSERT_TRUE(reduced.ok()) << reduced.status();
  EXPECT_EQ(*reduced, rows.Expected());
}

// All devices read what the host holds.
TEST_P(SeveralDevicesTest, HostMemoryIsSharedOutAmongDevices) {
  const std::string data = RandomDoubles(400 * kLeaf / 8);
  std::vector<NamedMemory::Part> parts = {
      {.memory = devices_.backend().Register(AsBytes(data)).value(), .byte_count = data.size()}};
  auto memory = std::make_shared<NamedMemory>(std::move(parts));
  const std::string token = const_cast<Service&>(devices_.service()).memories.Add(memory);
  const v1::ReduceRequest header = Header({v1::OPERATOR_SUM}, v1::ELEMENT_TYPE_FLOAT64);
  FakeBehaviour& behaviour = devices_.backend().behaviour;
  behaviour.SetBlocked(true);
  SessionDriver driver(devices_.service(), devices_.pool());
  driver.OnMessage(MessageOf(Reference(header, token, 0, data.size() / 8)));
  EXPECT_EQ(behaviour.working(), devices_.pool().size()) << "all slots of all devices work";
  behaviour.SetBlocked(false);
  driver.OnEnd();
  driver.AwaitDevice();
  EXPECT_EQ(ResultsOf(driver.result()), Reduce(one_, Reference(header, one_.Put(data), 0, data.size() / 8)));
}

// Another call has all slots of the last device: the array is reduced up to there, and then waits.
TEST_P(SeveralDevicesTest, AwaitsTheDeviceThatIsBusy) {
  const std::string data = RandomDoubles(50 * kLeaf / 8);
  const std::string token = devices_.Put(data);
  CountingHolder busy("busy");
  const int last = *devices_.array().parts().back().memory->device();
  std::vector<kernels::Slot*> held = {devices_.pool().Take(busy, last), devices_.pool().Take(busy, last)};
  const v1::ReduceRequest header =
      Reference(Header({v1::OPERATOR_SUM}, v1::ELEMENT_TYPE_FLOAT64), token, 0, data.size() / 8);
  SessionDriver driver(devices_.service(), devices_.pool());
  driver.OnMessage(MessageOf(header));
  driver.OnEnd();
  for (int i = 0; i < 20; ++i) devices_.pool().Poll();
  EXPECT_FALSE(driver.ended());
  for (kernels::Slot* const slot : held) devices_.pool().Return(slot);
  driver.AwaitDevice();
  ASSERT_TRUE(driver.ended() && driver.result().ok());
  EXPECT_EQ(ResultsOf(driver.result()), Reduce(one_, Reference(header, one_.Put(data), 0, data.size() / 8)));
}

TEST_P(SeveralDevicesTest, OneDeviceLostFailsTheArray) {
  const std::string data = RandomDoubles(50 * kLeaf / 8);
  const std::string token = devices_.Put(data);
  devices_.backend().behaviour.lost_device = GetParam() - 1;
  const v1::ReduceRequest header = Header({v1::OPERATOR_SUM}, v1::ELEMENT_TYPE_FLOAT64);
  const auto result = DriveSession(devices_.service(), devices_.pool(),
                                   {MessageOf(Reference(header, token, 0, data.size() / 8))});
  EXPECT_EQ(kernels::ErrorReason(result.status()), "DEVICE_LOST");
}

INSTANTIATE_TEST_SUITE_P(Of, SeveralDevicesTest, testing::Values(2, 3, 5));

}  // namespace
}  // namespace warpfold::server
