// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/server/simulation/simulated_arrays.h"

#include <algorithm>
#include <utility>

#include "tests/server/bytes_kept.h"
#include "warpfold/v1/arrays.pb.h"

namespace warpfold::server {

std::string SimulatedArrays::Judge(Service& service, const Script& script, const std::string& response,
                                   std::string* put) {
  if (absl::EndsWith(script.method, "/PutArray")) return JudgePut(service, script, response, put);
  if (absl::EndsWith(script.method, "/ListArrays")) {
    return JudgeList(script.kept.owner, service.clock(), response);
  }
  if (!Has(script.kept.token)) return "an array that has been deleted";
  if (absl::EndsWith(script.method, "/DeleteArray")) {
    arrays_.erase(script.kept.token);
    return "";
  }
  v1::GetArrayResponse found;
  const bool is_it = found.ParseFromString(response) &&
                     found.array().byte_count() == arrays_.at(script.kept.token).bytes.size();
  return is_it ? "" : "told of another array";
}

std::string SimulatedArrays::JudgePut(const Service& service, const Script& script,
                                      const std::string& response, std::string* put) {
  v1::PutArrayResponse answer;
  if (!answer.ParseFromString(response)) return "no response";
  if (BytesKept(service, answer.token()) != script.kept.bytes) return "another array is kept than came";
  *put = answer.token();
  const absl::Duration life = script.kept.time_to_live;
  Add(*put, {.owner = script.kept.owner,
             .bytes = script.kept.bytes,
             .expires = life == absl::Duration() ? absl::InfiniteFuture() : service.clock() + life});
  return "";
}

std::string SimulatedArrays::JudgeList(const std::string& owner, absl::Time now,
                                       const std::string& response) const {
  v1::ListArraysResponse list;
  if (!list.ParseFromString(response)) return "no list";
  const auto count = std::count_if(arrays_.begin(), arrays_.end(), [&](const auto& named) {
    return named.second.expires > now && (owner.empty() || named.second.owner == owner);
  });
  return list.arrays_size() == count ? "" : "a list of other arrays than those that are kept";
}

bool SimulatedArrays::Deserves(const Service& service, const Script& script, absl::string_view reason) const {
  if (reason == "UNKNOWN_MEMORY") return !script.kept.token.empty() && !Has(script.kept.token);
  const bool is_put = absl::EndsWith(script.method, "/PutArray");
  if (reason == "DEVICE_LOST") return is_put && store_failed;
  // Arrays that others have begun to put have their room already, and an eighth is not for everybody.
  const ResidentArrays::Room room = service.residents.room();
  const std::uint64_t needs = RangeAllocator::RoundUp(script.kept.bytes.size());
  return is_put && (needs + room.bytes / 8 > room.free_bytes || needs > room.largest_free_bytes);
}

std::string SimulatedArrays::JudgeEnd(Service& service) {
  const absl::Time now = service.clock();
  std::erase_if(arrays_, [now](const auto& named) { return named.second.expires <= now; });
  if (service.residents.List("", now).size() != arrays_.size()) return "arrays are lost, or kept too long";
  for (const auto& [token, array] : arrays_) {
    if (BytesKept(service, token) != array.bytes) return "an array that is kept has changed";
    if (!service.residents.Delete(token, now).ok()) return "an array that cannot be deleted";
  }
  const ResidentArrays::Room room = service.residents.room();
  return room.free_bytes == room.bytes ? "" : "room is kept for no array";
}

}  // namespace warpfold::server
