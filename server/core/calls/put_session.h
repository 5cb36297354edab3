// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One array on its way to the device's memory, where it stays.
//
// Threads: the shard's only. After an error the session returns nothing more, and the room is given back.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/calls/array_session.h"
#include "server/core/slots/array_writer.h"
#include "warpfold/v1/arrays.pb.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold::server {

class PutSession : public ArraySession {
 public:
  PutSession(Service& service, PartySlots slots, std::function<void()> listener)
      : ArraySession(service, std::move(slots), std::move(listener)), residents_(service.residents) {}

  // From here on clients can name the array.
  absl::StatusOr<std::string> Response() override;

  void Release() override;
  // Nobody knows its token.
  void OnNotDelivered() override;

  void Describe(absl::Time end, CallRecord* record) const override;
  const std::string& request_id() const override { return header_.request_id(); }
  std::uint64_t reserved_bytes() const override { return array_ != nullptr ? array_->byte_count() : 0; }

 protected:
  absl::StatusOr<StreamMessage> Parse(ByteSlices message) override;
  absl::Status Begin() override;
  absl::Status SinkStatus() const override { return writer_->status(); }
  absl::StatusOr<bool> TryFinish() override { return writer_->TryFinish(); }

 private:
  ResidentArrays& residents_;
  v1::PutArrayHeader parsed_header_;          // by Parse
  v1::PutArrayHeader header_;                 // of the array
  std::optional<kernels::ElementType> type_;  // once it has been accepted
  std::shared_ptr<const NamedMemory> array_;
  std::string token_;                  // once it is published
  std::optional<ArrayWriter> writer_;  // once there is a header
};

// These functions implement the methods of the same names.
absl::StatusOr<v1::GetArrayResponse> GetArray(const Service& service, const v1::GetArrayRequest& request);
absl::StatusOr<v1::ListArraysResponse> ListArrays(Service& service, const v1::ListArraysRequest& request);
absl::Status DeleteArray(Service& service, const v1::DeleteArrayRequest& request);

}  // namespace warpfold::server
