// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/admission/pending_answers.h"

#include "server/core/limits.h"

namespace warpfold::server {

PendingAnswers::Entry::Entry(PendingAnswers& answers, const std::string& party, std::uint64_t response_bytes,
                             bool half_closed)
    : answers_(answers),
      bytes_(response_bytes + kCallBytes + (half_closed ? 0 : kStreamWindowBytes)),
      of_party_(answers.Add(party, bytes_)) {}

PendingAnswers::Entry::~Entry() {
  const std::lock_guard lock(answers_.mutex_);
  answers_.bytes_ -= bytes_;
  of_party_->second -= bytes_;
  if (of_party_->second == 0) answers_.parties_.erase(of_party_);
}

absl::Duration PendingAnswers::Patience(absl::Duration idle, const std::string& party) const {
  const std::lock_guard lock(mutex_);
  if (bytes_ <= kMaxPendingAnswerBytes) return idle;
  const auto of_party = parties_.find(party);
  const bool has_more =
      of_party != parties_.end() && of_party->second > kMaxPendingAnswerBytes / parties_.size();
  return has_more ? kShortPatience : idle;
}

std::map<std::string, std::uint64_t>::iterator PendingAnswers::Add(const std::string& party,
                                                                   std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  bytes_ += bytes;
  const auto of_party = parties_.try_emplace(party).first;
  of_party->second += bytes;
  return of_party;
}

}  // namespace warpfold::server
