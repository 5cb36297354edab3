// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reduce of arrays that are not sent.
#include <memory>

#include "tests/server/core/calls/session_fixture.h"

namespace warpfold::server {
namespace {

// An array of 1 to n that lies in the server's memory, after 16 bytes of another one.
class ReferenceTest : public SessionTest {
 protected:
  v1::ReduceRequest HeaderOfReference(std::size_t n, std::uint64_t first_element) {
    std::vector<std::int32_t> elements = Ascending(n);
    elements.insert(elements.begin(), 4, -1'000'000);
    bytes_.assign(reinterpret_cast<const char*>(elements.data()), elements.size() * 4);
    memory_ = *backend_.Register(AsBytes(bytes_));
    v1::ReduceRequest header = Header({v1::OPERATOR_SUM});
    header.mutable_header()->set_first_element(first_element);
    v1::ArrayReference& reference = *header.mutable_header()->mutable_reference();
    reference.set_token(service_.memories.Add(std::make_shared<const NamedMemory>(
        std::vector<NamedMemory::Part>{{.memory = memory_, .byte_offset = 0, .byte_count = bytes_.size()}})));
    reference.set_byte_offset(16);
    reference.set_element_count(n);
    return header;
  }

  std::string bytes_;
  std::shared_ptr<const kernels::Memory> memory_;
};

TEST_F(ReferenceTest, APartOfAnArrayIsReadFromTheBeginningOfItsBytes) {
  for (const std::uint64_t first : {0, 1024, 1 << 20}) {
    const auto reduction = Run({HeaderOfReference(50'000, first)});
    ASSERT_TRUE(reduction.ok()) << reduction.status();
    EXPECT_EQ(reduction->results(0).int64_value(), 50'000LL * 50'001 / 2) << first;
    EXPECT_GT(backend_.behaviour.starts, 1);
  }
  ExpectUnharmed();
}

// Otherwise its state would not merge with any other.
TEST_F(ReferenceTest, NoArrayEndsBeyondTheLongest) {
  const std::size_t most = service_.limits.max_stream_bytes / 4;
  const std::uint64_t most_first = service_.limits.max_first_byte() / 4;
  const auto longest = Run({HeaderOfReference(most, most_first)});
  EXPECT_TRUE(longest.ok()) << longest.status();
  const auto beyond = Run({HeaderOfReference(most + 1, most_first)});
  EXPECT_EQ(kernels::ErrorReason(beyond.status()), "BAD_HEADER") << beyond.status();
  ExpectUnharmed();
}

TEST_F(ReferenceTest, WhatTheHostCanReadIsReducedBelowTheCrossoverWithoutASlot) {
  service_.cpu_crossover_bytes = 400'000;
  const auto reduction = Run({HeaderOfReference(50'000, 1024)});
  ASSERT_TRUE(reduction.ok()) << reduction.status();
  EXPECT_EQ(reduction->results(0).int64_value(), 50'000LL * 50'001 / 2);
  EXPECT_EQ(backend_.behaviour.starts, 0);
}

TEST_F(ReferenceTest, NothingIsReceivedOfAnArrayThatIsThere) {
  SessionDriver driver(service_, pool_);
  driver.OnMessage(MessageOf(HeaderOfReference(50'000, 0)));
  now_ += absl::Seconds(1);
  CallRecord record;
  driver.session().Describe(now_, &record);
  EXPECT_EQ(record.stages->receive, std::nullopt);
  driver.session().Release();
}

}  // namespace
}  // namespace warpfold::server
