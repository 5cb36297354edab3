// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams of a random array, and what strangers and networks make of them: messages that are damaged,
// dropped, duplicated and swapped, streams that are cut off, clients that leave. The header is a message like
// any other. Tests compare what a session returns with a plain reading of the API document.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "proto/crc32c.h"
#include "proto/leaf.h"
#include "server/core/calls/service.h"
#include "server/core/slots/slot_pool.h"
#include "server/core/wire/message.h"
#include "tests/server/drive_session.h"
#include "tests/server/fake_backend.h"
#include "tests/server/quiet_protobuf.h"
#include "tests/server/requests.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold::server {

using Messages = std::vector<std::string>;
using Random = std::mt19937;

inline std::size_t Below(Random& random, std::size_t n) { return random() % n; }
inline bool OneIn(Random& random, std::size_t n) { return Below(random, n) == 0; }

// Mutated streams of one kind, of four kinds in all. WARPFOLD_MUTATED_STREAMS says how many there are in all.
inline int MutatedStreams() {
  const char* const text = std::getenv("WARPFOLD_MUTATED_STREAMS");
  return (text == nullptr ? 40'000 : std::atoi(text)) / 4;
}

inline bool MutateOnce(Random& random, Messages& messages) {
  if (messages.empty()) return false;
  const Messages before = messages;
  const std::size_t which = Below(random, messages.size());
  std::string& message = messages[which];
  const auto at = messages.begin() + static_cast<std::ptrdiff_t>(which);
  switch (Below(random, 8)) {
    case 0:
      messages.erase(at);
      break;
    case 1:
      messages.insert(messages.begin() + static_cast<std::ptrdiff_t>(Below(random, messages.size() + 1)),
                      std::string(message));
      break;
    case 2:
      std::swap(message, messages[Below(random, messages.size())]);
      break;
    case 3:
      message.resize(Below(random, message.size() + 1));
      break;
    case 4:
      message += messages[Below(random, messages.size())];
      break;
    case 5:
      message.insert(Below(random, message.size() + 1), 1, static_cast<char>(random()));
      break;
    case 6:
      messages.resize(which);
      break;
    default:
      if (!message.empty()) message[Below(random, message.size())] = static_cast<char>(random());
  }
  return messages != before;
}

// One mutation or two, which change something.
inline void Mutate(Random& random, Messages& messages) {
  while (!MutateOnce(random, messages)) {
  }
  if (OneIn(random, 3)) MutateOnce(random, messages);
}

// Mostly small arrays; one in 32 has several leaves and slots.
inline std::string RandomData(Random& random, std::uint64_t element_bytes) {
  const std::size_t most = OneIn(random, 32) ? 5 * kLeafBytes : 200;
  std::string data(Below(random, most / element_bytes) * element_bytes, '\0');
  const bool small = OneIn(random, 2);
  for (char& byte : data) byte = static_cast<char>(small ? random() % 3 : random());
  return data;
}

// Where to cut this many bytes: anywhere, into pieces of at most a leaf.
inline std::vector<std::size_t> RandomEnds(Random& random, std::size_t bytes) {
  std::vector<std::size_t> ends;
  for (std::size_t at = 0; at < bytes;) {
    at = std::min(bytes, at + Below(random, bytes < 1000 ? 80 : kLeafBytes));
    ends.push_back(at);
  }
  return ends;
}

template <class Request>
void AddChunks(Random& random, const std::string& data, Messages* messages) {
  std::size_t at = 0;
  for (const std::size_t end : RandomEnds(random, data.size())) {
    Request request;
    request.mutable_chunk()->set_data(data.data() + at, end - at);
    if (OneIn(random, 2))
      request.mutable_chunk()->set_crc32c(proto::ComputeCrc32c(AsBytes(request.chunk().data())));
    messages->push_back(request.SerializeAsString());
    at = end;
  }
}

inline v1::ReduceCommit CommitOf(const std::string& data, std::uint64_t element_bytes, bool with_crc32c) {
  v1::ReduceCommit commit;
  commit.set_element_count(data.size() / element_bytes);
  commit.set_byte_count(data.size());
  if (with_crc32c) commit.set_crc32c(proto::ComputeCrc32c(AsBytes(data)));
  return commit;
}

inline bool IsText(const std::string& text) {
  return text.size() <= 128 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return c >= ' ' && c <= '~'; });
}

inline bool ChunkHolds(const v1::ReduceChunk& chunk) {
  return !chunk.has_crc32c() || chunk.crc32c() == proto::ComputeCrc32c(AsBytes(chunk.data()));
}

// Whether `commit` is true of `data`, and has a checksum exactly if one was announced.
inline bool CommitHolds(const v1::ReduceCommit& commit, const std::string& data, std::uint64_t element_bytes,
                        bool with_crc32c) {
  return data.size() % element_bytes == 0 && commit.byte_count() == data.size() &&
         commit.element_count() == data.size() / element_bytes && commit.has_crc32c() == with_crc32c &&
         (!commit.has_crc32c() || commit.crc32c() == proto::ComputeCrc32c(AsBytes(data)));
}

// The requests, if each is one.
template <class Request>
std::optional<std::vector<Request>> Parsed(const Messages& messages) {
  std::vector<Request> requests(messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!requests[i].ParseFromString(messages[i])) return std::nullopt;
    if (requests[i].message_case() == Request::MESSAGE_NOT_SET) return std::nullopt;
  }
  return requests;
}

// A server whose device finishes within Start or at the next look, with slots of two leaves.
class MutationTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kMaxStreamBytes = 1 << 20;

  // Plays the mutated streams, and one whole stream in eight among them: `round` is told which it is.
  template <class Round>
  void Play(Round round) {
    const int rounds = MutatedStreams();
    for (int mutated = 0; mutated < rounds && !HasFatalFailure();) {
      const bool mutates = !OneIn(random_, 8);
      mutated += mutates ? 1 : 0;
      backend_.behaviour.ends_in_start = OneIn(random_, 2);
      service_.cpu_crossover_bytes = OneIn(random_, 2) ? 100 : 0;
      round(mutates);
      pool_.Poll();
      ASSERT_EQ(pool_.free(), pool_.size()) << "slots are kept after stream " << mutated;
      ASSERT_EQ(pool_.waiting(), 0u) << "after stream " << mutated;
    }
    EXPECT_EQ(backend_.behaviour.misuses, 0);
  }

  // Messages as they arrive, in two slices or more.
  Message Arrives(const std::string& message) {
    return MessageOf(message, {Below(random_, message.size() + 1)});
  }

  // Sends the messages to a driver; one client in eight leaves before it has sent all. True if it stayed.
  template <class Driver>
  bool Send(Driver& driver, const Messages& messages) {
    const std::size_t leaves_after =
        OneIn(random_, 8) ? Below(random_, messages.size() + 1) : messages.size() + 1;
    for (std::size_t i = 0; i < messages.size() && !driver.ended(); ++i) {
      if (i == leaves_after) break;
      driver.OnMessage(Arrives(messages[i]));
      driver.AwaitDevice();
    }
    if (driver.ended()) return true;
    if (leaves_after <= messages.size()) {
      driver.session().Release();
      return false;
    }
    driver.OnEnd();
    driver.AwaitDevice();
    return true;
  }

  const QuietProtobuf quiet_;
  Random random_{4711};  // NOLINT(cert-msc51-cpp): the same streams on every run
  FakeBackend backend_{2, 2 * kLeafBytes};
  Service service_{backend_, Limits{.max_stream_bytes = kMaxStreamBytes}, [] { return absl::UnixEpoch(); }};
  SlotPool pool_{SlotsOf(backend_)};
};

}  // namespace warpfold::server
