// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/server/simulation/stream_script.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/backend.h"
#include "proto/crc32c.h"
#include "server/core/wire/messages.h"
#include "server/core/wire/operator_names.h"
#include "tests/server/requests.h"
#include "tests/server/simulation/array_scripts.h"
#include "tests/server/simulation/segment_scripts.h"

namespace warpfold::server {
namespace {

constexpr std::size_t kLeaf = 1024;
constexpr std::size_t kStripe = 4000;
constexpr std::array<std::size_t, 14> kSizes = {1,    700,       kLeaf - 1,     kLeaf,    kLeaf + 1,
                                                1500, 2 * kLeaf, 2 * kLeaf + 1, 2500,     3 * kLeaf,
                                                4000, 4 * kLeaf, 5 * kLeaf + 3, 6 * kLeaf};

// Elements of 4 bytes. As floats they are of very different sizes: their sum rounds differently in every
// other order.
struct Arrays {
  Arrays() : ints(6 * kLeaf), floats(6 * kLeaf) {
    std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same arrays on every run
    std::lognormal_distribution<float> sizes(0, 20);
    for (std::int32_t& element : ints) element = static_cast<std::int32_t>(random());
    for (float& element : floats) element = sizes(random);
  }
  std::vector<std::int32_t> ints;
  std::vector<float> floats;
};

// The results of a named algorithm are independent of the order only if they are exact. The last algorithms
// serve both operators.
v1::ReductionSpec NamedSpec(std::uint64_t identity) {
  v1::ReductionSpec spec = Header({v1::OPERATOR_SUM, v1::OPERATOR_MAX}).header().spec();
  const auto number = kernels::kAlgorithmCount - 1 - static_cast<int>(identity);
  spec.set_algorithm(AlgorithmToProto(static_cast<kernels::Algorithm>(number)));
  return spec;
}

// Computed in a single pass, in the canonical order.
std::string Expected(v1::ReductionSpec spec, std::size_t elements, std::uint64_t first_element, bool state) {
  static std::map<std::tuple<std::string, std::size_t, std::uint64_t, bool>, std::string> known;
  const auto [at, is_new] = known.try_emplace({spec.SerializeAsString(), elements, first_element, state});
  if (is_new) {
    spec.clear_algorithm();
    const bool floats = spec.element_type() == v1::ELEMENT_TYPE_FLOAT32;
    const kernels::PartialState whole =
        kernels::ReduceOnHost(PlanFromProto(spec).value(), first_element, ArrayData(floats, elements));
    v1::Reduction reduction;
    if (FillReduction(whole, state, &reduction).ok()) at->second = reduction.SerializeAsString();
  }
  return at->second;
}

std::string SomethingElse(Random& random) { return {"\x7a\x7f", 1 + Below(random, 2)}; }

// A Reduce stream as it should be.
struct Stream {
  v1::ReduceRequest header;
  std::vector<v1::ReduceRequest> chunks;
  v1::ReduceRequest commit;
};

Stream WholeStream(Random& random, std::uint64_t identity, Script& script) {
  const bool named = OneIn(random, 5);
  const bool floats = !named && OneIn(random, 2);
  const std::size_t elements = RandomSize(random);
  const std::span<const std::byte> data = ArrayData(floats, elements);
  Stream stream;
  v1::ReduceHeader& header = *stream.header.mutable_header();
  *header.mutable_spec() = named ? NamedSpec(identity) : SpecOf(floats, identity);
  if (!named && OneIn(random, 2)) header.set_first_element(3 * kLeaf);
  header.set_return_state(!named && OneIn(random, 2));
  if (OneIn(random, 3)) header.set_expected_element_count(elements);
  header.set_with_crc32c(OneIn(random, 4));
  std::vector<std::size_t> cuts(Below(random, 5));
  for (std::size_t& cut : cuts) cut = OneIn(random, 4) ? 0 : Below(random, data.size() + 1);
  std::sort(cuts.begin(), cuts.end());
  cuts.push_back(data.size());
  for (std::size_t i = 0, begin = 0; i < cuts.size(); begin = cuts[i++]) {
    const auto piece = data.subspan(begin, cuts[i] - begin);
    stream.chunks.push_back(Chunk(piece.data(), piece.size()));
    if (OneIn(random, 4)) stream.chunks.back().mutable_chunk()->set_crc32c(proto::ComputeCrc32c(piece));
  }
  stream.commit = Commit(elements, data.size());
  if (header.with_crc32c()) stream.commit.mutable_commit()->set_crc32c(proto::ComputeCrc32c(data));
  script.reduction = Expected(header.spec(), elements, header.first_element(), header.return_state());
  return stream;
}

void AddLines(const Stream& stream, Script& script) {
  script.lines.push_back({stream.header.SerializeAsString()});
  for (const v1::ReduceRequest& chunk : stream.chunks) {
    const std::size_t bytes = chunk.chunk().data().size();
    script.lines.push_back({chunk.SerializeAsString(), bytes > 0, bytes});
  }
  script.lines.push_back({stream.commit.SerializeAsString()});
}

// Breaks the stream somehow; returns the reason of the error that it then deserves.
std::string Fault(Random& random, Stream& stream) {
  v1::ReduceCommit& commit = *stream.commit.mutable_commit();
  switch (Below(random, 6)) {
    case 0:
      commit.set_element_count(commit.element_count() + 1);
      return "COUNT_MISMATCH";
    case 1:
      commit.set_byte_count(commit.byte_count() - 1);
      return "COUNT_MISMATCH";
    case 2:  // ends inside an element
      stream.chunks.push_back(Chunk("x", 1));
      stream.header.mutable_header()->clear_expected_element_count();
      stream.header.mutable_header()->set_with_crc32c(false);
      commit.clear_crc32c();
      commit.set_byte_count(commit.byte_count() + 1);
      return "COUNT_MISMATCH";
    case 3:
      stream.header.mutable_header()->set_with_crc32c(true);
      commit.set_crc32c(12345);
      return "CHECKSUM_MISMATCH";
    case 4: {
      v1::ReduceChunk& chunk = *stream.chunks[Below(random, stream.chunks.size())].mutable_chunk();
      chunk.set_crc32c(proto::ComputeCrc32c(AsBytes(chunk.data())) ^ 1);
      return "CHECKSUM_MISMATCH";
    }
    default:
      stream.header.mutable_header()->mutable_spec()->add_operators(v1::OPERATOR_UNSPECIFIED);
      return "BAD_HEADER";
  }
}

Script ReduceScript(Random& random, std::uint64_t identity) {
  Script script;
  script.method = "/warpfold.v1.ReductionService/Reduce";
  Stream stream = WholeStream(random, identity, script);
  const std::size_t fault = Below(random, 10);
  if (fault == 0) script.reason = Fault(random, stream);
  AddLines(stream, script);
  if (fault == 1) {  // truncated
    script.lines.resize(Below(random, script.lines.size()));
    script.reason = "NO_COMMIT";
  } else if (fault == 2) {
    const std::size_t at = Below(random, script.lines.size() + 1);
    if (at == script.lines.size()) script.whole_after = at;
    script.lines.insert(script.lines.begin() + static_cast<std::ptrdiff_t>(at), {SomethingElse(random)});
    script.reason = "BAD_MESSAGE";
  } else if (fault == 3) {
    script.whole_after = script.lines.size();
    script.lines.push_back({script.lines[Below(random, script.lines.size())]});
    script.reason = "BAD_ORDER";
  }
  return script;
}

// An array that the server keeps: only the header comes.
Script KeptScript(Random& random, std::uint64_t identity, const KeptArrays& kept) {
  Script script;
  script.method = "/warpfold.v1.ReductionService/Reduce";
  const bool floats = OneIn(random, 2);
  const bool is_resident = OneIn(random, 2);
  v1::ReduceRequest request;
  v1::ReduceHeader& header = *request.mutable_header();
  *header.mutable_spec() = SpecOf(floats, identity);
  header.set_return_state(OneIn(random, 2));
  v1::ArrayReference& reference = *header.mutable_reference();
  reference.set_token(floats ? kept.floats : kept.ints);
  if (is_resident) {
    reference.set_token(floats ? kept.resident_floats : kept.resident_ints);
    script.kept.token = reference.token();
  }
  reference.set_element_count(RandomSize(random));
  script.reduction = Expected(header.spec(), reference.element_count(), 0, header.return_state());
  if (OneIn(random, 10)) {
    reference.set_element_count(6 * kLeaf + 1);
    script.reason = "BAD_HEADER";
  }
  script.lines.push_back({request.SerializeAsString()});
  return script;
}

Script ArrayScript(Random& random, std::uint64_t identity) {
  Script script;
  script.method = "/warpfold.v1.ReductionService/ReduceArray";
  script.kind = Admission::Kind::kArray;
  const bool floats = OneIn(random, 2);
  const std::size_t elements = RandomSize(random);
  v1::ReduceArrayRequest request;
  *request.mutable_spec() = SpecOf(floats, identity);
  const auto data = ArrayData(floats, elements);
  request.set_data(data.data(), data.size());
  if (OneIn(random, 10)) {
    request.mutable_data()->pop_back();
    script.reason = "BAD_MESSAGE";
  }
  script.lines.push_back({request.SerializeAsString()});
  script.reduction = Expected(request.spec(), elements, 0, false);
  return script;
}

Script MergeScript(Random& random) {
  Script script;
  script.method = "/warpfold.v1.ReductionService/Merge";
  script.kind = Admission::Kind::kMerge;
  v1::MergeRequest request;
  *request.mutable_spec() = SpecOf(true, 0);
  v1::Reduction stripe;
  static_cast<void>(stripe.ParseFromString(Expected(request.spec(), kStripe, 0, true)));
  *request.add_states() = stripe.state();
  request.set_return_state(OneIn(random, 2));
  if (OneIn(random, 10)) {
    *request.add_states() = request.states(0);
    script.reason = "BAD_STATE";
  }
  script.lines.push_back({request.SerializeAsString()});
  script.reduction = Expected(request.spec(), kStripe, 0, request.return_state());
  return script;
}

Script SmallScript(Random& random) {
  Script script;
  script.kind = Admission::Kind::kSmall;
  script.lines.push_back({""});
  switch (Below(random, 3)) {
    case 0:
      script.method = "/warpfold.v1.ReductionService/GetServerInfo";
      break;
    case 1:
      script.method = "/grpc.health.v1.Health/Check";
      script.kind = Admission::Kind::kCheck;
      break;
    default:
      script.method = "/grpc.health.v1.Health/Watch";
      script.kind = Admission::Kind::kWatch;
      script.leaves = true;
  }
  if (OneIn(random, 10)) {
    script.lines.clear();
    script.reason = "BAD_MESSAGE";
  } else if (script.kind == Admission::Kind::kWatch && OneIn(random, 10)) {
    script.lines.push_back({""});
    script.reason = "BAD_MESSAGE";
  }
  return script;
}

}  // namespace

std::string PeerOf(std::size_t host, std::size_t port) {
  return absl::StrCat("ipv4:192.0.2.", host, ":", port);
}

std::string RandomPeer(Random& random) {
  const std::size_t host = Below(random, kHosts);
  return PeerOf(host, 1024 + Below(random, 1000));
}

std::size_t RandomSize(Random& random) { return kSizes[Below(random, kSizes.size())]; }

v1::ReductionSpec SpecOf(bool floats, std::uint64_t identity) {
  v1::ReductionSpec spec = Header({v1::OPERATOR_SUM, v1::OPERATOR_VARIANCE},
                                  floats ? v1::ELEMENT_TYPE_FLOAT32 : v1::ELEMENT_TYPE_INT32)
                               .header()
                               .spec();
  spec.set_ddof(identity);
  return spec;
}

std::span<const std::byte> ArrayData(bool floats) {
  static const Arrays arrays;
  return floats ? std::as_bytes(std::span(arrays.floats)) : std::as_bytes(std::span(arrays.ints));
}

Script RandomScript(Random& random, std::uint64_t identity, const KeptArrays& kept) {
  const std::size_t method = Below(random, 14);
  Script script = method < 3    ? ReduceScript(random, identity)
                  : method < 4  ? KeptScript(random, identity, kept)
                  : method < 5  ? SegmentsScript(random, identity, kept)
                  : method < 6  ? KeptSegmentsScript(random, identity, kept)
                  : method < 8  ? ArrayScript(random, identity)
                  : method < 9  ? MergeScript(random)
                  : method < 10 ? SmallScript(random)
                  : method < 12 ? PutScript(random, identity)
                  : method < 13 ? ArrayServiceScript(random, kept)
                                : ReflectionScript(random);
  script.peer = RandomPeer(random);
  script.says = script.lines.size();
  if (OneIn(random, 12)) {
    script.says = Below(random, script.lines.size() + 1);
    script.ends = false;
  }
  if (OneIn(random, 12)) script.leaves = true;
  script.takes_answer = !OneIn(random, 8);
  if (OneIn(random, 12)) script.patience = absl::Milliseconds(Below(random, 3000));
  return script;
}

std::string WhatCounts(const std::string& response) {
  v1::ReduceResponse parsed;  // as are those of ReduceArray and Merge
  if (!parsed.ParseFromString(response)) return "no response";
  parsed.mutable_reduction()->clear_timings();
  parsed.mutable_reduction()->clear_device();
  return parsed.reduction().SerializeAsString();
}

}  // namespace warpfold::server
