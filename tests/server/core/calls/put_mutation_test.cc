// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Mutated streams of PutArray, like those of Reduce in stream_mutation_test.cc: the server keeps exactly the
// bytes of the array, and room for an array that is not kept becomes free again.
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "server/core/calls/put_session.h"
#include "server/core/wire/messages.h"
#include "tests/server/bytes_kept.h"
#include "tests/server/core/calls/mutated_streams.h"
#include "warpfold/v1/arrays.pb.h"

namespace warpfold::server {
namespace {

constexpr v1::ElementType kTypes[] = {v1::ELEMENT_TYPE_INT32, v1::ELEMENT_TYPE_UINT8, v1::ELEMENT_TYPE_INT64,
                                      v1::ELEMENT_TYPE_BFLOAT16};

std::optional<std::uint64_t> ElementBytes(const v1::PutArrayHeader& header) {
  const auto layout =
      LayoutFromProto(header.element_type(), header.has_matrix_shape() ? &header.matrix_shape() : nullptr);
  if (!layout.ok()) return std::nullopt;
  return ElementTypeBytes(layout->type) * std::uint64_t{layout->shape.entries()};
}

Messages RandomStream(Random& random) {
  v1::PutArrayRequest request;
  v1::PutArrayHeader header;
  header.set_element_type(kTypes[Below(random, std::size(kTypes))]);
  if (OneIn(random, 4)) {
    header.mutable_matrix_shape()->set_rows(1 + static_cast<std::uint32_t>(Below(random, 3)));
    header.mutable_matrix_shape()->set_columns(2);
  }
  const std::uint64_t element_bytes = ElementBytes(header).value();
  const std::string data = RandomData(random, element_bytes);
  header.set_element_count(data.size() / element_bytes);
  if (OneIn(random, 2)) header.set_owner("me");
  if (OneIn(random, 2)) header.set_time_to_live_seconds(60);
  header.set_with_crc32c(OneIn(random, 2));
  *request.mutable_header() = header;
  Messages messages = {request.SerializeAsString()};
  AddChunks<v1::PutArrayRequest>(random, data, &messages);
  *request.mutable_commit() = CommitOf(data, element_bytes, header.with_crc32c());
  messages.push_back(request.SerializeAsString());
  return messages;
}

// The bytes that these messages put; none if they are not a whole stream.
std::optional<std::string> PlainReading(const Messages& messages) {
  const auto requests = Parsed<v1::PutArrayRequest>(messages);
  if (!requests.has_value() || requests->size() < 2) return std::nullopt;
  if (!requests->front().has_header() || !requests->back().has_commit()) return std::nullopt;
  const v1::PutArrayHeader& header = requests->front().header();
  const std::optional<std::uint64_t> element_bytes = ElementBytes(header);
  if (!element_bytes.has_value() || !IsText(header.request_id()) || !IsText(header.owner())) {
    return std::nullopt;
  }
  std::string data;
  for (std::size_t i = 1; i + 1 < requests->size(); ++i) {
    if (!(*requests)[i].has_chunk() || !ChunkHolds((*requests)[i].chunk())) return std::nullopt;
    data += (*requests)[i].chunk().data();
  }
  const bool holds = CommitHolds(requests->back().commit(), data, *element_bytes, header.with_crc32c()) &&
                     header.element_count() == data.size() / *element_bytes;
  return holds ? std::optional(data) : std::nullopt;
}

// Does for a PutSession what Call does, like SessionDriver for a Session.
class PutDriver {
 public:
  PutDriver(Service& service, SlotPool& pool)
      : pool_(pool), session_(service, pool, [this] { OnProgress(); }) {}

  void OnMessage(Message message) { Follow(session_.OnMessage(std::move(message))); }
  void OnEnd() { Follow(session_.OnEnd()); }
  void AwaitDevice() {
    while (need_ == ArraySession::Need::kDevice) pool_.Poll();
  }
  PutSession& session() { return session_; }
  bool ended() const { return result_.has_value(); }
  const absl::StatusOr<std::string>& result() const { return *result_; }

 private:
  void OnProgress() {
    if (!ended()) Follow(session_.Resume());
  }
  void Follow(const absl::StatusOr<ArraySession::Need>& need) {
    need_ = need.value_or(ArraySession::Need::kNothing);
    if (need_ != ArraySession::Need::kNothing) return;
    result_ = need.ok() ? session_.Response() : absl::StatusOr<std::string>(need.status());
    session_.Release();
  }

  SlotPool& pool_;
  PutSession session_;
  ArraySession::Need need_ = ArraySession::Need::kMessage;
  std::optional<absl::StatusOr<std::string>> result_;
};

class PutMutationTest : public MutationTest {
 protected:
  PutMutationTest() {
    service_.residents.Open(backend_.AllocateOfEach(2 * kMaxStreamBytes),
                            {.owner_bytes = 2 * kMaxStreamBytes,
                             .default_time_to_live = absl::Seconds(100),
                             .max_time_to_live = absl::Seconds(1000)});
  }
};

TEST_F(PutMutationTest, WhatIsKeptIsWhatCame) {
  int kept = 0;
  Play([&](bool mutates) {
    Messages messages = RandomStream(random_);
    if (mutates) Mutate(random_, messages);
    {
      PutDriver driver(service_, pool_);
      if (Send(driver, messages)) {
        const std::optional<std::string> deserved = PlainReading(messages);
        if (!mutates) {
          ASSERT_TRUE(deserved.has_value()) << "a whole stream";
        }
        ASSERT_EQ(driver.result().ok(), deserved.has_value()) << driver.result().status();
        if (deserved.has_value()) {
          v1::PutArrayResponse response;
          ASSERT_TRUE(response.ParseFromString(*driver.result()));
          ASSERT_EQ(BytesKept(service_, response.token()), *deserved);
          ASSERT_TRUE(service_.residents.Delete(response.token(), service_.clock()).ok());
          ++kept;
        }
      }
    }
    pool_.Poll();  // arrays of clients that have left are still being written
    const ResidentArrays::Room room = service_.residents.room();
    ASSERT_EQ(room.free_bytes, room.bytes) << "room is kept";
  });
  EXPECT_GT(kept, MutatedStreams() / 7);
}

}  // namespace
}  // namespace warpfold::server
