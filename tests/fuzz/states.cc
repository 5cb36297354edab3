// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// States of two stripes of an array, with bytes of the request changed: the result of the merge is a state
// that a server accepts and returns again, of as many elements as were claimed. Unchanged, it is the whole
// array's state.
#include <string>

#include "kernels/backend.h"
#include "kernels/error.h"
#include "server/core/calls/merge.h"
#include "server/core/wire/messages.h"
#include "server/core/wire/request_parser.h"
#include "server/core/wire/state_messages.h"
#include "server/core/wire/wire_guard.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/specs.h"
#include "tests/server/fake_backend.h"
#include "tests/server/quiet_protobuf.h"
#include "tests/server/requests.h"

namespace warpfold::server {
namespace {

using fuzz::Expect;
using fuzz::Input;

v1::PartialState StateOf(const kernels::PartialState& state) { return StateToProto(state); }

// Makes a request for an array whose second part begins at a leaf; false if no server accepts the spec.
bool AnyRequest(Input& input, v1::MergeRequest* request, v1::PartialState* whole) {
  *request->mutable_spec() = fuzz::AnySpec(input);
  const auto reduction = PlanFromProto(request->spec());
  if (!reduction.ok()) return false;
  const std::size_t element_bytes = reduction->element_bytes();
  const std::size_t first_elements = 4096 * (1 + input.Below(3));  // a multiple of every type's leaf
  std::string pattern = input.Bytes(1 + input.Below(32));
  if (pattern.empty()) pattern.push_back('\1');
  std::string data;
  while (data.size() < (first_elements + 300) * element_bytes) data += pattern;
  data.resize((first_elements + input.Below(300)) * element_bytes);
  const std::size_t first_bytes = first_elements * element_bytes;
  const ByteSlice bytes = AsBytes(data);
  *request->add_states() = StateOf(kernels::ReduceOnHost(*reduction, 0, bytes.first(first_bytes)));
  *request->add_states() =
      StateOf(kernels::ReduceOnHost(*reduction, first_elements, bytes.subspan(first_bytes)));
  *whole = StateOf(kernels::ReduceOnHost(*reduction, 0, bytes));
  request->set_return_state(true);
  return true;
}

// Changes bytes, most of them in the states.
bool Damage(Input& input, v1::MergeRequest* request) {
  std::string bytes = request->SerializeAsString();
  const bool changes = !input.empty();
  while (!input.empty()) {
    const std::size_t at = input.Below(1 << 20) % bytes.size();
    bytes[at] = static_cast<char>(input.Below(256));
  }
  const ByteSlice slice = AsBytes(bytes);
  request->Clear();
  Expect(ParseWhole({&slice, 1}, server::kMaxFields, request).ok() || changes, "a request can be parsed");
  return changes;
}

void CheckMerged(const Service& service, const v1::MergeRequest& request, const v1::Reduction& merged) {
  std::uint64_t elements = 0;
  for (const v1::PartialState& state : request.states()) elements += state.element_count();
  Expect(merged.element_count() == elements, "all elements");
  if (!request.return_state()) return;
  v1::MergeRequest again;
  *again.mutable_spec() = request.spec();
  *again.add_states() = merged.state();
  again.set_return_state(true);
  const auto answer = Merge(service, again);
  Expect(answer.ok(), "what is answered is taken");
  Expect(answer->reduction().state().SerializeAsString() == merged.state().SerializeAsString(),
         "a state alone stays as it is");
}

}  // namespace
}  // namespace warpfold::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace warpfold::server;  // NOLINT(google-build-using-namespace): a main function's
  static const QuietProtobuf kQuiet;
  static FakeBackend backend;
  static const Service service(backend, Limits(), [] { return absl::UnixEpoch(); });
  warpfold::fuzz::Input input(data, size);
  warpfold::v1::MergeRequest request;
  warpfold::v1::PartialState whole;
  if (!AnyRequest(input, &request, &whole)) return 0;
  const bool damaged = Damage(input, &request);
  const auto answer = Merge(service, request);
  if (!answer.ok()) {
    warpfold::fuzz::Expect(!warpfold::kernels::ErrorReason(answer.status()).empty(), "errors have a reason");
    return 0;
  }
  CheckMerged(service, request, answer->reduction());
  if (!damaged) {
    warpfold::fuzz::Expect(answer->reduction().state().SerializeAsString() == whole.SerializeAsString(),
                           "the state of the whole");
  }
  return 0;
}
