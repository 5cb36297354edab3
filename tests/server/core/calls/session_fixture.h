// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Sessions of Reduce over a fake backend, without gRPC.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kernels/error.h"
#include "server/core/calls/reduce_session.h"
#include "tests/server/drive_session.h"
#include "tests/server/fake_backend.h"
#include "tests/server/requests.h"

namespace warpfold::server {

inline std::vector<std::int32_t> Ascending(std::size_t n) {
  std::vector<std::int32_t> elements(n);
  std::iota(elements.begin(), elements.end(), 1);
  return elements;
}

class SessionTest : public testing::Test {
 protected:
  SessionTest() : service_(backend_, Limits{.max_stream_bytes = 1 << 20}, [this] { return now_; }) {}

  // Sends the messages until one fails, then ends the stream. With `slow`, others want all slots between two.
  absl::StatusOr<v1::Reduction> Run(const std::vector<v1::ReduceRequest>& requests, bool slow = false) {
    std::vector<Message> messages;
    for (const v1::ReduceRequest& request : requests) {
      std::string bytes = request.SerializeAsString();
      const std::size_t middle = bytes.size() / 2;
      messages.push_back(MessageOf(std::move(bytes), {middle}));
    }
    return DriveSession(service_, pool_, messages, [&] {
      if (!slow) return;
      RevokeLoans(pool_);
      EXPECT_EQ(pool_.free(), pool_.size());
    });
  }

  void ExpectUnharmed() {
    EXPECT_EQ(pool_.free(), pool_.size());
    EXPECT_EQ(pool_.waiting(), 0u);
    EXPECT_EQ(backend_.behaviour.starts, backend_.behaviour.waits);
    EXPECT_EQ(backend_.behaviour.misuses, 0);
  }

  void ExpectError(const std::vector<v1::ReduceRequest>& requests, absl::StatusCode code,
                   const std::string& reason) {
    const absl::Status status = Run(requests).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_EQ(kernels::ErrorReason(status), reason) << status;
    ExpectUnharmed();
  }

  absl::Time now_ = absl::UnixEpoch();
  FakeBackend backend_;
  Service service_;
  SlotPool pool_{SlotsOf(backend_)};
};

}  // namespace warpfold::server
