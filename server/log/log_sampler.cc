// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/log/log_sampler.h"

namespace warpfold::server {
namespace {

constexpr std::int64_t kLinesInASecond = 10;
constexpr absl::Duration kSecond = absl::Seconds(1);

}  // namespace

bool LogSampler::Admit(const std::string& kind, absl::Time now) {
  const std::lock_guard lock(mutex_);
  Second& second = seconds_[kind];
  if (now - second.begin >= kSecond) {
    second.begin = now;
    second.lines = 0;
  }
  if (++second.lines <= kLinesInASecond) return true;
  ++second.left_out;
  return false;
}

std::map<std::string, std::int64_t> LogSampler::TakeLeftOut(absl::Time now) {
  std::map<std::string, std::int64_t> left_out;
  const std::lock_guard lock(mutex_);
  for (auto& [kind, second] : seconds_) {
    if (second.left_out == 0 || now - second.begin < kSecond) continue;
    left_out[kind] = second.left_out;
    second.left_out = 0;
  }
  return left_out;
}

}  // namespace warpfold::server
