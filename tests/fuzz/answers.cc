// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A server's response with changed bytes, or any bytes as a response: the client accepts it or not, and reads
// what it accepts.
#include <string>

#include "client/calls/answer_check.h"
#include "client/calls/translate.h"
#include "kernels/backend.h"
#include "server/core/wire/messages.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/specs.h"
#include "tests/server/quiet_protobuf.h"
#include "tests/server/requests.h"

namespace warpfold {
namespace {

using fuzz::Expect;
using fuzz::Input;

constexpr std::uint64_t kElements = 12;

std::string Serve(Input& input, const v1::ReductionSpec& spec, bool state) {
  const auto reduction = server::PlanFromProto(spec);
  if (!reduction.ok()) return "";
  std::string data = input.Bytes(kElements * reduction->element_bytes());
  data.resize(kElements * reduction->element_bytes());
  v1::Reduction answer;
  const absl::Status filled =
      server::FillReduction(kernels::ReduceOnHost(*reduction, 0, server::AsBytes(data)), state, &answer);
  if (!filled.ok()) return "";
  Expect(CheckReduction(spec, {0, kElements}, state, answer).ok(), "the server's answer is believed");
  return answer.SerializeAsString();
}

}  // namespace
}  // namespace warpfold

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace warpfold;  // NOLINT(google-build-using-namespace): a main function's
  static const server::QuietProtobuf kQuiet;
  fuzz::Input input(data, size);
  const v1::ReductionSpec spec = fuzz::AnySpec(input);
  const bool state = input.OneIn(2);
  std::string answer = Serve(input, spec, state);
  while (!answer.empty() && !input.empty()) {
    const std::size_t at = input.Below(256) % answer.size();
    answer[at] = static_cast<char>(input.Below(256));
  }
  if (answer.empty()) answer = input.Rest();
  v1::Reduction message;
  if (!message.ParseFromString(answer)) return 0;
  if (!CheckReduction(spec, {0, kElements}, state, message).ok()) return 0;
  Expect(message.element_count() == kElements, "as many elements as were sent");
  const auto reduction = FromProto(message);
  if (reduction.ok()) {
    Expect(reduction->results.size() == static_cast<std::size_t>(spec.operators_size()), "a result for each");
  }
  return 0;
}
