// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/array_stream.h"

#include <utility>

#include "client/calls/answer_check.h"
#include "client/calls/methods.h"
#include "client/calls/wire.h"

namespace warpfold {
namespace {

v1::ReduceRequest RequestOf(const v1::ReduceHeader& header, const CallOptions& options) {
  v1::ReduceRequest request;
  *request.mutable_header() = header;
  request.mutable_header()->set_with_crc32c(options.checksum);
  return request;
}

}  // namespace

ArrayStream::ArrayStream(const Connection& connection, absl::Time deadline, const Interrupts& interrupts,
                         const CallOptions& options, const v1::ReduceHeader& header, const std::string& array,
                         RawCall::Load load)
    : header_(header),
      chunks_(connection, deadline, interrupts, options, kReduceMethod, RequestOf(header, options), array,
              load) {}

bool ArrayStream::Commit(std::uint64_t element_bytes) {
  committed_ = {header_.first_element(), element_bytes == 0 ? 0 : chunks_.sent_bytes() / element_bytes};
  return chunks_.Commit(element_bytes);
}

absl::StatusOr<v1::Reduction> ArrayStream::Finish() {
  absl::StatusOr<grpc::ByteBuffer> answer = chunks_.Finish();
  if (!answer.ok()) return answer.status();
  v1::ReduceResponse response;
  if (absl::Status status = ParseAnswer(*std::move(answer), response); !status.ok()) return status;
  absl::Status status =
      CheckReduction(header_.spec(), committed_, header_.return_state(), response.reduction());
  if (!status.ok()) return status;
  return std::move(*response.mutable_reduction());
}

}  // namespace warpfold
