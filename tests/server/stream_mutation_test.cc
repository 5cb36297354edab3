// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams whose messages are damaged, dropped, doubled and swapped at random, against a plain reading of
// the API document: a session answers what that reading answers, or an error where it finds one.
// WARPFOLD_MUTATED_STREAMS says how many.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>

#include "proto/crc32c.h"
#include "tests/server/drive_session.h"
#include "tests/server/fake_backend.h"
#include "tests/server/quiet_protobuf.h"
#include "tests/server/requests.h"

namespace warpfold::server {
namespace {

using Messages = std::vector<std::string>;

// Whether `commit` is true of `data`, int32 elements, and has a checksum just where one was announced.
bool Confirms(const v1::ReduceCommit& commit, const std::string& data, bool with_crc32c) {
  return data.size() % 4 == 0 && commit.byte_count() == data.size() &&
         commit.element_count() == data.size() / 4 && commit.has_crc32c() == with_crc32c &&
         (!commit.has_crc32c() || commit.crc32c() == proto::ComputeCrc32c(AsBytes(data)));
}

std::int64_t Sum(const std::string& data) {
  std::int64_t sum = 0;
  for (std::size_t at = 0; at < data.size(); at += 4) {
    std::int32_t element = 0;
    std::memcpy(&element, data.data() + at, 4);
    sum += element;
  }
  return sum;
}

// The sum that these messages after a header ask for; nothing if they are not a whole stream.
std::optional<std::int64_t> PlainReading(const Messages& messages, bool with_crc32c) {
  std::string data;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    v1::ReduceRequest request;
    if (!request.ParseFromString(messages[i])) return std::nullopt;
    if (request.has_commit()) {
      const bool is_last = i + 1 == messages.size();
      return is_last && Confirms(request.commit(), data, with_crc32c) ? std::optional(Sum(data))
                                                                      : std::nullopt;
    }
    if (!request.has_chunk()) return std::nullopt;
    const v1::ReduceChunk& chunk = request.chunk();
    if (chunk.has_crc32c() && chunk.crc32c() != proto::ComputeCrc32c(AsBytes(chunk.data())))
      return std::nullopt;
    data += chunk.data();
  }
  return std::nullopt;
}

// A few chunks of small elements, some with checksums, and their commit, with one where that is announced.
Messages RandomStream(std::mt19937& random, bool with_crc32c) {
  Messages messages;
  std::string data;
  const std::size_t chunks = random() % 4;
  for (std::size_t c = 0; c < chunks; ++c) {
    std::string part(4 * (random() % 8), '\0');
    for (char& byte : part) byte = static_cast<char>(random() % 3);
    v1::ReduceRequest request = Chunk(part.data(), part.size());
    if (random() % 2 == 0) request.mutable_chunk()->set_crc32c(proto::ComputeCrc32c(AsBytes(part)));
    messages.push_back(request.SerializeAsString());
    data += part;
  }
  v1::ReduceRequest commit = Commit(data.size() / 4, data.size());
  if (with_crc32c) commit.mutable_commit()->set_crc32c(proto::ComputeCrc32c(AsBytes(data)));
  messages.push_back(commit.SerializeAsString());
  return messages;
}

void Damage(std::mt19937& random, Messages& messages) {
  if (messages.empty()) return;
  const std::size_t which = random() % messages.size();
  std::string& message = messages[which];
  switch (random() % 7) {
    case 0:
      messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(which));
      return;
    case 1:
      messages.insert(messages.begin(), std::string(message));
      return;
    case 2:
      std::swap(message, messages[random() % messages.size()]);
      return;
    case 3:
      message.resize(random() % (message.size() + 1));
      return;
    case 4:
      message += messages[random() % messages.size()];
      return;
    case 5:
      message.insert(random() % (message.size() + 1), 1, static_cast<char>(random() % 256));
      return;
    default:
      if (!message.empty()) message[random() % message.size()] = static_cast<char>(random() % 256);
  }
}

int Rounds() {
  const char* const text = std::getenv("WARPFOLD_MUTATED_STREAMS");
  return text == nullptr ? 50'000 : std::atoi(text);
}

TEST(StreamMutationTest, NeverAnsweredWrongly) {
  FakeBackend backend;
  const Service service(backend, Limits{.max_stream_bytes = 1 << 20}, [] { return absl::UnixEpoch(); });
  SlotShare share(SlotsOf(backend));
  std::mt19937 random(4711);  // NOLINT(cert-msc51-cpp): the same streams on every run
  const QuietProtobuf quiet;
  int answered = 0;
  const int rounds = Rounds();
  for (int round = 0; round < rounds; ++round) {
    v1::ReduceRequest header = Header({v1::OPERATOR_SUM});
    const bool with_crc32c = random() % 2 == 0;
    header.mutable_header()->set_with_crc32c(with_crc32c);
    Messages messages = RandomStream(random, with_crc32c);
    for (std::size_t damages = random() % 3; damages > 0; --damages) Damage(random, messages);

    std::vector<Message> stream = {MessageOf(header)};
    for (const std::string& message : messages) {
      stream.push_back(MessageOf(message, {random() % (message.size() + 1)}));
    }
    const absl::StatusOr<v1::Reduction> reduction = DriveSession(service, share, stream);

    const std::optional<std::int64_t> expected = PlainReading(messages, with_crc32c);
    ASSERT_EQ(reduction.ok(), expected.has_value()) << "round " << round << ": " << reduction.status();
    if (!reduction.ok()) continue;
    ++answered;
    ASSERT_EQ(reduction->results(0).int64_value(), *expected) << "round " << round;
  }
  // The test would say nothing if hardly any stream were whole.
  EXPECT_GT(answered, rounds / 10 * 3);
  EXPECT_LT(answered, rounds / 10 * 8);
}

}  // namespace
}  // namespace warpfold::server
