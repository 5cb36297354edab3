// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams whose messages are damaged, dropped, doubled and swapped at random, against a plain reading of
// the API document: a session answers what that reading answers, or an error where it finds one.
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <random>

#include "server/session.h"
#include "tests/server/fake_backend.h"
#include "tests/server/requests.h"

namespace warpfold::server {
namespace {

using Messages = std::vector<std::string>;

// Whether `commit` is true of `data`, int32 elements.
bool Confirms(const v1::ReduceCommit& commit, const std::string& data) {
  return data.size() % 4 == 0 && commit.byte_count() == data.size() &&
         commit.element_count() == data.size() / 4 &&
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
std::optional<std::int64_t> PlainReading(const Messages& messages) {
  std::string data;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    v1::ReduceRequest request;
    if (!request.ParseFromString(messages[i])) return std::nullopt;
    if (request.has_commit()) {
      const bool is_last = i + 1 == messages.size();
      return is_last && Confirms(request.commit(), data) ? std::optional(Sum(data)) : std::nullopt;
    }
    if (!request.has_chunk()) return std::nullopt;
    const v1::ReduceChunk& chunk = request.chunk();
    if (chunk.has_crc32c() && chunk.crc32c() != proto::ComputeCrc32c(AsBytes(chunk.data())))
      return std::nullopt;
    data += chunk.data();
  }
  return std::nullopt;
}

// A few chunks of small elements, some with checksums, and their commit.
Messages RandomStream(std::mt19937& random) {
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
  if (random() % 2 == 0) commit.mutable_commit()->set_crc32c(proto::ComputeCrc32c(AsBytes(data)));
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

TEST(StreamMutationTest, NeverAnsweredWrongly) {
  FakeBackend backend;
  Engine engine(backend, Limits{.max_stream_bytes = 1 << 20}, [] { return absl::UnixEpoch(); });
  CallControl call(absl::UnixEpoch(), absl::InfiniteFuture(), {});
  const std::string header = Header({v1::OPERATOR_SUM}).SerializeAsString();
  std::mt19937 random(4711);  // NOLINT(cert-msc51-cpp): the same streams on every run
  const google::protobuf::LogSilencer silencer;
  int answered = 0;
  for (int round = 0; round < 50000; ++round) {
    Messages messages = RandomStream(random);
    for (std::size_t damages = random() % 3; damages > 0; --damages) Damage(random, messages);

    Session session(engine, call);
    absl::Status status = session.OnMessage(Cut(header, {}));
    for (const std::string& message : messages) {
      if (!status.ok()) break;
      status = session.OnMessage(Cut(message, {random() % (message.size() + 1)}));
    }
    const absl::StatusOr<v1::ReduceResponse> response =
        status.ok() ? session.OnEnd() : absl::StatusOr<v1::ReduceResponse>(status);

    const std::optional<std::int64_t> expected = PlainReading(messages);
    ASSERT_EQ(response.ok(), expected.has_value()) << "round " << round << ": " << response.status();
    if (!response.ok()) continue;
    ++answered;
    ASSERT_EQ(response->reduction().results(0).int64_value(), *expected) << "round " << round;
  }
  EXPECT_GT(answered, 15000);  // the test would say nothing if hardly any stream were whole
  EXPECT_LT(answered, 40000);
}

}  // namespace
}  // namespace warpfold::server
