// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Who may call what. An identity is a text that says how the caller is known:
//
//   spiffe://trust-domain/path   of a certificate: its SPIFFE ID (a URI among its alternative names)
//   dns:client.example.org       of a certificate without one: its first DNS name, in lower case
//   uid:1000                     the user of the process at the other end of a Unix socket
//   anonymous                    everybody else
//
// A list has a line for each rule: an identity, or * for everybody, and then the methods that it may call, by
// their last names, or * for all. Text after a # is a comment. Anything that no line allows is denied.
//
//   spiffe://example.org/ns/batch/sa/report   Reduce ReduceArray Merge GetServerInfo
//   uid:1000                                  *
//   *                                         Check Watch
#pragma once

#include <bitset>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/core/admission/methods.h"

namespace warpfold::server {

// The identity of callers about whom nothing is known.
inline constexpr char kAnonymous[] = "anonymous";

// Constant after construction.
class AllowList {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20;  // of the text

  // INVALID_ARGUMENT with the line and what is wrong with it, or if no line allows anything: a file that is
  // being written looks like that.
  static absl::StatusOr<AllowList> Parse(absl::string_view text);

  bool Allows(const std::string& identity, Method method) const;

  // The first identity that contains an asterisk, which stands only for itself there; empty if there is none.
  // A certificate may have such a name, but the author of the rule probably meant others.
  const std::string& literal_asterisk() const { return literal_asterisk_; }

 private:
  using Methods = std::bitset<static_cast<std::size_t>(Method::kUnknown)>;

  absl::Status AddRule(absl::string_view line);

  std::unordered_map<std::string, Methods> of_identities_;
  Methods of_everybody_;
  std::string literal_asterisk_;
};

// The list that is in force. Threads: all methods from any thread.
class Access {
 public:
  // From now on each call is checked against this list; until the first list everybody may call everything.
  void SetList(AllowList list);

  // PERMISSION_DENIED (NOT_ALLOWED).
  absl::Status Check(const std::string& identity, Method method) const;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const AllowList> list_;  // guarded by mutex_; null: none
};

}  // namespace warpfold::server
