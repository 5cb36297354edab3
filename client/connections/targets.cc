// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/connections/targets.h"

#include <algorithm>
#include <utility>

#include "client/connections/grpc_process.h"

namespace warpfold {

Targets::Lease::~Lease() {
  if (targets_ == nullptr) return;
  absl::MutexLock lock(&targets_->mutex_);
  --line_->users;
}

Targets::Targets(std::vector<std::string> names, const ClientOptions& options)
    : names_(names.size()), options_(options) {
  absl::MutexLock lock(&mutex_);
  for (std::string& name : names) targets_.emplace_back().name = std::move(name);
}

Targets::Lease Targets::Take(std::size_t preferred, absl::Time now, const Failed& failed) {
  absl::MutexLock lock(&mutex_);
  const std::size_t best = BestOf(preferred, now, failed);
  Line& line = LeastBusyOrNew(targets_[best], now);
  ++line.users;
  return Lease(this, best, &line);
}

std::size_t Targets::Best(std::size_t preferred, absl::Time now, const Failed& failed) const {
  absl::MutexLock lock(&mutex_);
  return BestOf(preferred, now, failed);
}

std::size_t Targets::BestOf(std::size_t preferred, absl::Time now, const Failed& failed) const {
  const auto rank = [&](std::size_t target) {
    return std::pair(failed.contains(target), targets_[target].left_out_until);
  };
  std::size_t best = preferred;
  for (std::size_t i = 1; i < names_; ++i) {
    const std::size_t other = (preferred + i) % names_;
    if (targets_[best].left_out_until <= now) break;
    if (targets_[other].left_out_until <= now || rank(other) < rank(best)) best = other;
  }
  return best;
}

Targets::Line& Targets::LeastBusyOrNew(Target& target, absl::Time now) {
  const auto less_busy = [](const auto& a, const auto& b) {
    return std::pair(a->users, a->rests_until) < std::pair(b->users, b->rests_until);
  };
  auto end = target.lines.end();
  if (target.full_until > now) {
    end = std::partition(target.lines.begin(), end,
                         [](const auto& line) { return line->connection->IsReady(); });
  }
  const bool is_full = end != target.lines.end() && end != target.lines.begin();
  if (!is_full) end = target.lines.end();
  const auto least = std::min_element(target.lines.begin(), end, less_busy);
  const bool takes_more = !is_full && target.lines.size() < static_cast<std::size_t>(options_.connections);
  if (least != target.lines.end() && ((*least)->users == 0 || !takes_more)) return **least;
  if (least != target.lines.end()) LookUpCpuFrequency();
  Line& line = *target.lines.emplace_back(std::make_unique<Line>());
  line.connection = std::make_shared<const Connection>(target.name, options_, target.target_load);
  return line;
}

void Targets::Renew(Lease& lease) {
  absl::MutexLock lock(&mutex_);
  Line& line = *lease.line_;
  // Another call on the same connection may have done it.
  if (line.connection == lease.connection_) {
    const Target& target = targets_[lease.target_];
    line.connection = std::make_shared<const Connection>(target.name, options_, target.target_load);
  }
  lease.connection_ = line.connection;
}

std::size_t Targets::Next() {
  absl::MutexLock lock(&mutex_);
  return next_++ % names_;
}

void Targets::Rest(const Lease& lease, absl::Time until) {
  absl::MutexLock lock(&mutex_);
  lease.line_->rests_until = std::max(lease.line_->rests_until, until);
}

absl::Time Targets::RestsUntil(const Lease& lease) const {
  absl::MutexLock lock(&mutex_);
  return lease.line_->rests_until;
}

void Targets::NoteFull(std::size_t target, absl::Time until) {
  absl::MutexLock lock(&mutex_);
  targets_[target].full_until = until;
}

bool Targets::OnlyOthersWork(const Lease& lease, absl::Time now) const {
  absl::MutexLock lock(&mutex_);
  if (lease.connection_->IsReady()) return false;
  for (std::size_t target = 0; target < names_; ++target) {
    if (target != lease.target_ && targets_[target].left_out_until <= now) return false;
  }
  return std::ranges::any_of(targets_[lease.target_].lines,
                             [](const auto& line) { return line->connection->IsReady(); });
}

void Targets::LeaveOut(std::size_t target, absl::Time until) {
  absl::MutexLock lock(&mutex_);
  targets_[target].left_out_until = until;
}

bool Targets::IsLeftOut(std::size_t target, absl::Time now) const {
  absl::MutexLock lock(&mutex_);
  return targets_[target].left_out_until > now;
}

std::optional<v1::TransferAdvice> Targets::advice(std::size_t target) const {
  absl::MutexLock lock(&mutex_);
  return targets_[target].advice;
}

void Targets::KeepAdvice(std::size_t target, const v1::TransferAdvice& advice) {
  absl::MutexLock lock(&mutex_);
  targets_[target].advice = advice;
}

}  // namespace warpfold
