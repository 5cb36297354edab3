// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Arrays that their callers divide themselves: states of parts, from a server in this process that reduces on
// the CPU, and the result of merging them.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "client/client.h"
#include "client/connections/grpc_process.h"
#include "client/error.h"
#include "kernels/devices.h"
#include "server/rpc/rpc_server.h"

namespace warpfold {
namespace {

const Spec kSpec = {.operators = {"sum", "argmax"}};
constexpr std::uint64_t kCut = CutElements(sizeof(float));

std::string ReasonOf(const absl::Status& status) { return GetErrorInfo(status).value_or(ErrorInfo{}).reason; }

// Of very different sizes: their sum rounds differently in every other order.
std::vector<float> Floats(std::size_t count) {
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same array on every run
  std::lognormal_distribution<float> sizes(0, 20);
  std::vector<float> values(count);
  for (float& value : values) value = sizes(random);
  return values;
}

std::span<const std::byte> Bytes(std::span<const float> elements) { return std::as_bytes(elements); }

class PartsTest : public testing::Test {
 protected:
  PartsTest() {
    LookUpCpuFrequency();
    std::string note;
    backend_ = kernels::MakeBackend("cpu", {.slots = 4, .slot_bytes = 64 << 10}, &note).value();
    service_ =
        std::make_unique<server::Service>(*backend_, server::Limits(), [] { return absl::UnixEpoch(); });
    server_ = server::RpcServer::Start(*service_, {.listen = {"127.0.0.1:0"}, .tls = std::nullopt}).value();
    client_ = std::make_unique<Client>(server_->addresses()[0]);
  }

  absl::StatusOr<PartialState> ReducePart(std::uint64_t first, std::span<const float> elements,
                                          const CallOptions& options = {}) {
    const std::span<const std::byte> pieces[] = {Bytes(elements)};
    return client_->ReducePart(kSpec, ElementType::kFloat32, first, pieces, options);
  }

  // States of the array's parts, each except the last with this many elements.
  std::vector<PartialState> StatesOf(std::span<const float> array, std::uint64_t cuts_of_part) {
    std::vector<PartialState> states;
    for (std::uint64_t first = 0; first < array.size(); first += cuts_of_part * kCut) {
      const std::uint64_t count = std::min(cuts_of_part * kCut, array.size() - first);
      states.push_back(ReducePart(first, array.subspan(first, count)).value());
      EXPECT_EQ(states.back().first_element, first);
      EXPECT_EQ(states.back().element_count, count);
    }
    return states;
  }

  void ExpectSameBits(const absl::StatusOr<Reduction>& merged, std::span<const float> array) {
    const absl::StatusOr<Reduction> whole = client_->Reduce(kSpec, array);
    ASSERT_TRUE(merged.ok() && whole.ok()) << merged.status() << whole.status();
    EXPECT_EQ(merged->element_count, array.size());
    for (std::size_t i = 0; i < kSpec.operators.size(); ++i) {
      EXPECT_EQ(merged->results[i].value, whole->results[i].value);
      EXPECT_EQ(merged->results[i].index, whole->results[i].index);
    }
  }

  void ExpectNotMerged(const std::vector<PartialState>& states, const std::string& why,
                       const std::string& reason = "BAD_STATE") {
    const absl::Status merged = client_->Merge(kSpec, ElementType::kFloat32, states).status();
    EXPECT_EQ(ReasonOf(merged), reason) << merged;
    EXPECT_NE(merged.message().find(why), std::string::npos) << merged;
    EXPECT_EQ(client_->MergeToState(kSpec, ElementType::kFloat32, states).status(), merged);
  }

  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<server::Service> service_;
  std::unique_ptr<server::RpcServer> server_;
  std::unique_ptr<Client> client_;
};

TEST_F(PartsTest, MergedPartsHaveTheBitsOfOneCall) {
  const std::vector<float> array = Floats(100'000);
  for (const std::uint64_t cuts_of_part : {1, 7, 64, 1000}) {
    const std::vector<PartialState> states = StatesOf(array, cuts_of_part);
    ExpectSameBits(client_->Merge(kSpec, ElementType::kFloat32, states), array);
  }
}

TEST_F(PartsTest, StatesAreMergedInGroups) {
  const std::vector<float> array = Floats(100'000);
  const std::vector<PartialState> states = StatesOf(array, 5);
  std::vector<PartialState> groups;
  for (std::size_t begin = 0; begin < states.size(); begin += 3) {
    const std::size_t count = std::min<std::size_t>(3, states.size() - begin);
    groups.push_back(
        client_->MergeToState(kSpec, ElementType::kFloat32, std::span(states).subspan(begin, count)).value());
  }
  ExpectSameBits(client_->Merge(kSpec, ElementType::kFloat32, groups), array);
}

TEST_F(PartsTest, APartMayLieInPiecesOfAnyLength) {
  const std::vector<float> array = Floats(100'000);
  const std::span<const std::byte> bytes = Bytes(array);
  std::mt19937 random(2);  // NOLINT(cert-msc51-cpp)
  for (const std::size_t longest : {3, 5'000, 200'000}) {
    // Each piece is in its own memory, so that what lies after it is not the next one.
    std::vector<std::vector<std::byte>> owned;
    for (std::size_t begin = 0; begin < bytes.size(); begin += owned.back().size()) {
      if (random() % 4 == 0) owned.emplace_back();
      const auto piece = bytes.subspan(begin, std::min(random() % longest + 1, bytes.size() - begin));
      owned.emplace_back(piece.begin(), piece.end());
    }
    const std::vector<std::span<const std::byte>> pieces(owned.begin(), owned.end());
    const PartialState state =
        client_->ReducePart(kSpec, ElementType::kFloat32, 0, pieces, {.chunk_bytes = 4096}).value();
    ExpectSameBits(client_->Merge(kSpec, ElementType::kFloat32, {&state, 1}), array);
  }
}

TEST_F(PartsTest, PartsThatCannotBeAreRefused) {
  const std::vector<float> array(kCut, 1);
  EXPECT_EQ(ReasonOf(ReducePart(0, array, {.streams = 2}).status()), "BAD_HEADER");
  EXPECT_EQ(ReasonOf(ReducePart(1, array).status()), "BAD_HEADER");
  EXPECT_EQ(ReasonOf(ReducePart(std::numeric_limits<std::uint64_t>::max() / 2, array).status()),
            "BAD_HEADER");
  const std::span<const std::byte> torn[] = {Bytes(array).first(5)};
  EXPECT_EQ(ReasonOf(client_->ReducePart(kSpec, ElementType::kFloat32, 0, torn).status()), "BAD_HEADER");
  EXPECT_FALSE(ReducePart(0, array, {.chunk_bytes = 1 << 30}).ok());
  EXPECT_FALSE(client_->ReducePart({.operators = {"no such"}}, ElementType::kFloat32, 0, torn).ok());
}

TEST_F(PartsTest, StatesThatDoNotFollowEachOtherAreRefused) {
  const std::vector<PartialState> states = StatesOf(Floats(10 * kCut), 4);
  ASSERT_EQ(states.size(), 3u);
  ExpectNotMerged({}, "none to merge", "BAD_HEADER");
  ExpectNotMerged({states[0], states[2]}, "number 1 begins at element");
  ExpectNotMerged({states[1], states[0]}, "number 1 begins at element");
  ExpectNotMerged({states[0], states[0]}, "number 1 begins at element");
  PartialState forged = states[1];
  forged.bytes = "no state";
  ExpectNotMerged({states[0], forged}, "number 1 is not one");
  forged = states[1];
  forged.element_count += 1;
  ExpectNotMerged({states[0], forged}, "number 1 is not one");
}

TEST_F(PartsTest, StatesOfNoElementsDoNotCountButForTheFirst) {
  const std::vector<float> array = Floats(3 * kCut + 6);
  const std::vector<PartialState> states = StatesOf(array, 2);
  ASSERT_EQ(states.size(), 2u);
  const PartialState empty = ReducePart(0, {}).value();
  const PartialState beyond = ReducePart(6 * kCut, {}).value();
  const std::vector<PartialState> with_empty = {empty, states[0], beyond, states[1], beyond, empty};
  ExpectSameBits(client_->Merge(kSpec, ElementType::kFloat32, with_empty), array);
  const PartialState whole = client_->MergeToState(kSpec, ElementType::kFloat32, with_empty).value();
  EXPECT_EQ(whole.first_element, 0u);
  EXPECT_EQ(whole.element_count, array.size());
  ExpectSameBits(client_->Merge(kSpec, ElementType::kFloat32, {&whole, 1}), array);
  ExpectNotMerged({beyond, states[0], states[1]}, "number 1 begins at element");
  ExpectNotMerged({states[0], beyond, states[0]}, "number 2 begins at element");
}

TEST_F(PartsTest, StatesOfAnotherQuestionAreRefused) {
  const std::vector<PartialState> states = StatesOf(Floats(4 * kCut), 2);
  EXPECT_EQ(ReasonOf(client_->Merge({.operators = {"min"}}, ElementType::kFloat32, states).status()),
            "BAD_STATE");
  EXPECT_EQ(ReasonOf(client_->Merge(kSpec, ElementType::kFloat64, states).status()), "BAD_STATE");
}

}  // namespace
}  // namespace warpfold
