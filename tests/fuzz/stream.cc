// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A stream of messages, whole or broken, in any order and cut anywhere: a session returns the reduction of
// the array's bytes at once, bit for bit, and whatever happened, its slots are given back.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/error.h"
#include "proto/crc32c.h"
#include "server/core/wire/messages.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/specs.h"
#include "tests/server/drive_session.h"
#include "tests/server/fake_backend.h"
#include "tests/server/quiet_protobuf.h"
#include "tests/server/requests.h"

namespace warpfold::server {
namespace {

using fuzz::Expect;
using fuzz::Input;

v1::ReduceRequest AnyHeader(Input& input) {
  v1::ReduceRequest request;
  v1::ReduceHeader& header = *request.mutable_header();
  *header.mutable_spec() = fuzz::AnySpec(input);
  header.set_with_crc32c(input.OneIn(2));
  header.set_return_state(input.OneIn(2));
  if (input.OneIn(4)) header.set_first_element(input.Below(64) * (input.OneIn(2) ? 4096 : 511));
  if (input.OneIn(8)) header.set_expected_element_count(input.Below(16));
  return request;
}

// A few bytes as they are, or many bytes that repeat: arrays of several slots.
std::string AnyData(Input& input) {
  std::string pattern = input.Bytes(input.Below(64));
  if (pattern.empty() || !input.OneIn(4)) return pattern;
  std::string data;
  for (std::uint64_t times = input.Below(4096); times > 0; --times) data += pattern;
  return data;
}

v1::ReduceRequest AnyMessage(Input& input, const std::string& sent, std::uint64_t element_bytes,
                             bool with_crc32c) {
  v1::ReduceRequest request;
  if (input.OneIn(16)) return AnyHeader(input);
  if (input.OneIn(4)) {
    v1::ReduceCommit& commit = *request.mutable_commit();
    commit.set_byte_count(input.OneIn(8) ? input.Below(256) : sent.size());
    commit.set_element_count(input.OneIn(8) || element_bytes == 0 ? input.Below(256)
                                                                  : sent.size() / element_bytes);
    if (!input.OneIn(4) == with_crc32c) commit.set_crc32c(proto::ComputeCrc32c(AsBytes(sent)));
    return request;
  }
  v1::ReduceChunk& chunk = *request.mutable_chunk();
  chunk.set_data(AnyData(input));
  if (input.OneIn(4)) chunk.set_crc32c(proto::ComputeCrc32c(AsBytes(chunk.data())));
  if (input.OneIn(16)) chunk.set_crc32c(static_cast<std::uint32_t>(input.Number()));
  return request;
}

// The messages, and the array that they carry up to the first commit.
struct Stream {
  std::vector<Message> messages;
  v1::ReduceHeader header;
  std::string data;
  std::optional<v1::ReduceCommit> commit;
  bool in_order = true;     // chunks and one commit after them, and nothing else
  bool chunks_hold = true;  // their checksums are right

  void Read(const v1::ReduceRequest& request) {
    in_order &= !commit.has_value() && (request.has_chunk() || request.has_commit());
    if (commit.has_value()) return;
    if (request.has_commit()) commit = request.commit();
    const v1::ReduceChunk& chunk = request.chunk();
    data += chunk.data();
    chunks_hold &= !chunk.has_crc32c() || chunk.crc32c() == proto::ComputeCrc32c(AsBytes(chunk.data()));
  }
};

Stream AnyStream(Input& input) {
  Stream stream;
  const v1::ReduceRequest header = AnyHeader(input);
  stream.header = header.header();
  stream.messages.push_back(MessageOf(header));
  const auto reduction = PlanFromProto(stream.header.spec());
  const std::uint64_t element_bytes = reduction.ok() ? reduction->element_bytes() : 0;
  while (!input.empty() && stream.messages.size() < 64) {
    v1::ReduceRequest request = AnyMessage(input, stream.data, element_bytes, stream.header.with_crc32c());
    std::string bytes = request.SerializeAsString();
    if (!bytes.empty() && input.OneIn(16)) {
      bytes[input.Below(bytes.size())] = static_cast<char>(input.Below(256));
      if (!request.ParseFromString(bytes)) request.Clear();
    }
    stream.Read(request);
    const std::vector<std::size_t> cuts = input.Cuts(bytes.size());
    stream.messages.push_back(MessageOf(std::move(bytes), cuts));
  }
  return stream;
}

// Whether the stream brings what the header announces. Arrays that begin at the end of the range of element
// numbers are not made.
bool HeaderHolds(const Stream& stream, std::uint64_t elements, std::uint64_t leaf_elements) {
  const v1::ReduceHeader& header = stream.header;
  return header.first_element() % leaf_elements == 0 &&
         (!header.has_expected_element_count() || header.expected_element_count() == elements);
}

bool CommitHolds(const Stream& stream, std::uint64_t elements) {
  const v1::ReduceCommit& commit = *stream.commit;
  return commit.byte_count() == stream.data.size() && commit.element_count() == elements &&
         commit.has_crc32c() == stream.header.with_crc32c() &&
         (!commit.has_crc32c() || commit.crc32c() == proto::ComputeCrc32c(AsBytes(stream.data)));
}

// The response that the stream should get: none if it is not whole.
absl::StatusOr<v1::Reduction> Deserved(const Stream& stream) {
  const auto plan = PlanFromProto(stream.header.spec());
  if (!plan.ok()) return plan.status();
  const std::uint64_t elements = stream.data.size() / plan->element_bytes();
  if (!stream.in_order || !stream.commit.has_value() || !stream.chunks_hold ||
      stream.data.size() % plan->element_bytes() != 0 ||
      !HeaderHolds(stream, elements, plan->leaf_elements()) || !CommitHolds(stream, elements)) {
    return absl::InvalidArgumentError("not whole");
  }
  v1::Reduction answer;
  const absl::Status filled =
      FillReduction(kernels::ReduceOnHost(*plan, stream.header.first_element(), AsBytes(stream.data)),
                    stream.header.return_state(), &answer);
  if (!filled.ok()) return filled;
  return answer;
}

void ExpectSame(const v1::Reduction& answer, const v1::Reduction& expected) {
  Expect(answer.element_count() == expected.element_count(), "all elements");
  Expect(answer.state().SerializeAsString() == expected.state().SerializeAsString(), "the same state");
  Expect(answer.results_size() == expected.results_size(), "as many results");
  for (int i = 0; i < answer.results_size(); ++i) {
    Expect(answer.results(i).SerializeAsString() == expected.results(i).SerializeAsString(),
           "the same value");
  }
}

}  // namespace
}  // namespace warpfold::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace warpfold::server;  // NOLINT(google-build-using-namespace): a main function's
  static const QuietProtobuf kQuiet;
  static FakeBackend backend;
  static const Service service(backend, Limits{.max_stream_bytes = 4 << 20},
                               [] { return absl::UnixEpoch(); });
  static SlotPool pool(SlotsOf(backend));
  warpfold::fuzz::Input input(data, size);
  const Stream stream = AnyStream(input);
  const absl::StatusOr<warpfold::v1::Reduction> answer = DriveSession(service, pool, stream.messages);
  warpfold::fuzz::Expect(pool.free() == pool.size(), "all slots are back");
  const absl::StatusOr<warpfold::v1::Reduction> expected = Deserved(stream);
  warpfold::fuzz::Expect(answer.ok() == expected.ok(), "an answer just where one is deserved");
  if (answer.ok()) {
    ExpectSame(*answer, *expected);
  } else {
    warpfold::fuzz::Expect(!warpfold::kernels::ErrorReason(answer.status()).empty(), "errors have a reason");
  }
  return 0;
}
