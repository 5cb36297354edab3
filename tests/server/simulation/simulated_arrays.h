// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The books of the arrays that a simulated server should keep: which there are, whose they are and for how
// long.
#pragma once

#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/core/calls/service.h"
#include "tests/server/simulation/stream_script.h"

namespace warpfold::server {

// Threads: one.
class SimulatedArrays {
 public:
  struct Array {
    std::string owner;
    std::string bytes;
    absl::Time expires = absl::InfiniteFuture();
  };

  void Add(const std::string& token, Array array) { arrays_.emplace(token, std::move(array)); }
  // Whether it has not been deleted.
  bool Has(const std::string& token) const { return arrays_.contains(token); }
  // Its client has left without the token.
  void OnNotDelivered(const std::string& token) { arrays_.erase(token); }

  // The device has failed to write something: the client of some array has to hear of it.
  bool store_failed = false;

  // Enters a response to a script of ArrayService; returns what is wrong with it, or "". `put` becomes the
  // token of an array that was put.
  std::string Judge(Service& service, const Script& script, const std::string& response, std::string* put);
  // Whether the script deserves this error, given what is kept.
  bool Deserves(const Service& service, const Script& script, absl::string_view reason) const;
  // Deletes all; returns what is wrong with them, or with the room that is left, or "".
  std::string JudgeEnd(Service& service);

 private:
  std::string JudgePut(const Service& service, const Script& script, const std::string& response,
                       std::string* put);
  std::string JudgeList(const std::string& owner, absl::Time now, const std::string& response) const;

  std::map<std::string, Array> arrays_;  // by token
};

inline bool IsOfArrayService(const Script& script) {
  return absl::StartsWith(script.method, "/warpfold.v1.ArrayService/");
}

}  // namespace warpfold::server
