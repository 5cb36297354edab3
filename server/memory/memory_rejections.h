// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Counts what the memory socket rejects, by reason, and tells of it.
//
// Threads: Add is called on the memory socket's thread, the rest on any.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/strings/string_view.h"
#include "proto/error_reasons.h"

namespace warpfold::server {

// It is told the user whose request or connection it was, the reason, and a sentence for people.
using MemoryRejectionListener =
    std::function<void(uid_t user, absl::string_view reason, absl::string_view message)>;

class MemoryRejections {
 public:
  // This one is for a connection beyond those that one user may have. The others are reasons of responses;
  // a user who may not connect gets none, and counts as NOT_ALLOWED.
  static constexpr char kConnections[] = "connections";
  static constexpr char kOther[] = "other";
  static constexpr std::array<const char*, 9> kReasons = {
      reason::kBadMemory,         reason::kBadMessage,    reason::kNoProber,
      reason::kNotAllowed,        reason::kTooMuchMemory, reason::kUnknownMemory,
      reason::kUnsupportedMemory, kConnections,           kOther};

  // `tell` is called for each, on the memory socket's thread; it may be null.
  explicit MemoryRejections(MemoryRejectionListener tell) : tell_(std::move(tell)) {}

  // The one of kReasons that this counts as.
  static const char* KindOf(absl::string_view reason) { return kReasons[PositionOf(reason)]; }

  void Add(uid_t user, absl::string_view reason, absl::string_view message) {
    counts_[PositionOf(reason)].fetch_add(1, std::memory_order_relaxed);
    if (tell_ != nullptr) tell_(user, reason, message);
  }

  // One for each of kReasons, in their order.
  std::array<std::uint64_t, kReasons.size()> counts() const {
    std::array<std::uint64_t, kReasons.size()> counts;
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = counts_[i].load(std::memory_order_relaxed);
    return counts;
  }

 private:
  static std::size_t PositionOf(absl::string_view reason) {
    std::size_t i = 0;
    while (i + 1 < kReasons.size() && reason != kReasons[i]) ++i;
    return i;
  }

  const MemoryRejectionListener tell_;
  std::array<std::atomic<std::uint64_t>, kReasons.size()> counts_ = {};
};

}  // namespace warpfold::server
