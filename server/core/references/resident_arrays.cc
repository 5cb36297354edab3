// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/references/resident_arrays.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"
#include "server/core/references/resident_pool.h"

namespace warpfold::server {
namespace {

absl::Status NotFound() {
  return kernels::Error(absl::StatusCode::kNotFound, reason::kUnknownMemory,
                        "this server keeps no array of this token (any more)", {{"field", "token"}});
}

absl::Status Exhausted(absl::string_view reason, absl::string_view what, absl::string_view limit,
                       std::uint64_t value) {
  return kernels::Error(absl::StatusCode::kResourceExhausted, reason, absl::StrCat(what, limit, " = ", value),
                        {{"limit", std::string(limit)}, {"value", absl::StrCat(value)}});
}

}  // namespace

struct ResidentArrays::Pool {
  // What a party or an owner has; it is never empty.
  struct Share {
    std::uint64_t bytes = 0;  // that its arrays take in the pool, which is more than their size
    std::size_t arrays = 0;
  };
  using Shares = std::unordered_map<std::string, Share>;

  Pool(std::vector<std::unique_ptr<kernels::Memory>> memories, std::uint64_t part_bytes)
      : ranges(std::move(memories), part_bytes) {}

  static Share Of(const Shares& shares, const std::string& name) {
    const auto found = shares.find(name);
    return found == shares.end() ? Share() : found->second;
  }
  static void Add(Shares& shares, const std::string& name, std::uint64_t bytes) {
    Share& share = shares[name];
    share.bytes += bytes;
    ++share.arrays;
  }
  static void Remove(Shares& shares, const std::string& name, std::uint64_t bytes) {
    const auto share = shares.find(name);
    share->second.bytes -= bytes;
    if (--share->second.arrays == 0) shares.erase(share);
  }
  // A party may have this much of a pool that is empty otherwise. The last eighth is for others.
  std::uint64_t MostOfOneParty() const { return ranges.bytes() - ranges.bytes() / 8; }
  // Whether a party may have `bytes` more, if they are free: it then has at most half, or an eighth is left.
  bool MayTakeLocked(const Share& share, std::uint64_t bytes) const {
    const std::uint64_t all = ranges.bytes();
    const std::uint64_t free = ranges.free_bytes();
    return bytes > free || free - bytes >= all / 8 || share.bytes + bytes <= all / 2;
  }
  // Whether it may have one more array, likewise.
  bool MayTakeOneLocked(const Share& share) const {
    return arrays < kMaxArrays - kMaxArrays / 8 || (arrays < kMaxArrays && share.arrays < kMaxArrays / 2);
  }

  std::mutex mutex;
  ResidentPool ranges;        // guarded by mutex
  Shares owners;              // guarded by mutex
  Shares parties;             // guarded by mutex
  std::size_t arrays = 0;     // guarded by mutex
  std::uint64_t next_id = 1;  // guarded by mutex
};

class ResidentArrays::Array : public NamedMemory {
 public:
  Array(std::shared_ptr<Pool> pool, std::vector<Part> parts, std::uint64_t id, Request request)
      : NamedMemory(std::move(parts), request.layout),
        pool_(std::move(pool)),
        id_(id),
        request_(std::move(request)) {}

  ~Array() override {
    const std::lock_guard lock(pool_->mutex);
    pool_->ranges.Return(parts());
    --pool_->arrays;
    const std::uint64_t taken = RangeAllocator::RoundUp(byte_count());
    Pool::Remove(pool_->parties, request_.party, taken);
    Pool::Remove(pool_->owners, request_.owner, taken);
  }

  void SetBegin(absl::Time now) const { begin_ = now; }
  absl::Duration ExpiresIn(absl::Time now) const { return LastUse(now) - now + request_.time_to_live; }
  bool IsExpired(absl::Time now) const override { return ExpiresIn(now) <= absl::ZeroDuration(); }

  Info InfoAt(absl::Time now) const {
    return {.id = id_, .request = request_, .age = now - begin_, .expires_in = ExpiresIn(now)};
  }
  const Request& request() const { return request_; }

 private:
  const std::shared_ptr<Pool> pool_;
  const std::uint64_t id_;
  const Request request_;
  mutable absl::Time begin_;  // set before it is published
};

ResidentArrays::~ResidentArrays() {
  for (const auto& [token, array] : published_) registry_.Remove(token);
}

void ResidentArrays::Open(std::vector<std::unique_ptr<kernels::Memory>> memories, const Limits& limits) {
  pool_ = std::make_shared<Pool>(std::move(memories), limits.part_bytes);
  limits_ = limits;
}

absl::StatusOr<std::shared_ptr<const NamedMemory>> ResidentArrays::Reserve(const Request& request,
                                                                           absl::Time now) {
  if (pool_ == nullptr) {
    return kernels::Error(absl::StatusCode::kUnimplemented, reason::kNoResidentArrays,
                          "this server keeps no arrays: it was started without --resident_bytes");
  }
  {
    std::vector<std::shared_ptr<const Array>> removed;  // destroyed outside of the lock
    const std::lock_guard lock(mutex_);
    SweepLocked(now, &removed);
  }
  Request kept = request;
  if (kept.time_to_live == absl::ZeroDuration()) kept.time_to_live = limits_.default_time_to_live;
  kept.time_to_live = std::min(kept.time_to_live, limits_.max_time_to_live);
  const std::lock_guard lock(pool_->mutex);
  const std::uint64_t taken = RangeAllocator::RoundUp(kept.byte_count);
  const std::uint64_t owned = Pool::Of(pool_->owners, kept.owner).bytes;
  // The last array may end with the memory, and so take less: a party that may have everything may have that,
  // too.
  const std::uint64_t quota = limits_.owner_bytes;
  const bool is_bound = quota < pool_->ranges.bytes();
  if (is_bound && taken > quota) {
    return Exhausted(reason::kArrayTooLarge,
                     absl::StrCat("the array can never fit: one owner may use at most ",
                                  RangeAllocator::RoundDown(quota), " bytes, a multiple of 512 within "),
                     "resident_owner_bytes", quota);
  }
  if (taken > pool_->MostOfOneParty()) {
    return Exhausted(reason::kArrayTooLarge,
                     absl::StrCat("the array can never fit: one client may use at most ",
                                  RangeAllocator::RoundDown(pool_->MostOfOneParty()),
                                  " bytes, a multiple of 512 within seven eighths of "),
                     "resident_bytes", pool_->ranges.bytes());
  }
  if (is_bound && owned > quota - taken) {
    return Exhausted(reason::kOwnerQuota, "the owner's arrays would exceed ", "resident_owner_bytes", quota);
  }
  const Pool::Share share = Pool::Of(pool_->parties, kept.party);
  if (!pool_->MayTakeOneLocked(share)) {
    return Exhausted(
        reason::kResidentFull,
        "the server has no place for another array, or reserves the last ones for other clients; ",
        "max_arrays", kMaxArrays);
  }
  if (!pool_->MayTakeLocked(share, taken)) {
    return Exhausted(reason::kResidentFull,
                     "the client would use more than half, and the last eighth is reserved for other "
                     "clients; ",
                     "resident_bytes", pool_->ranges.bytes());
  }
  std::vector<NamedMemory::Part> parts = pool_->ranges.Take(kept.byte_count);
  if (parts.empty()) {
    return Exhausted(reason::kResidentFull, "there is no free range of so many bytes; ", "largest_free_bytes",
                     pool_->ranges.LargestArray());
  }
  Pool::Add(pool_->owners, kept.owner, taken);
  Pool::Add(pool_->parties, kept.party, taken);
  ++pool_->arrays;
  return std::make_shared<const Array>(pool_, std::move(parts), pool_->next_id++, std::move(kept));
}

std::string ResidentArrays::Publish(const std::shared_ptr<const NamedMemory>& array, absl::Time now) {
  auto own = std::static_pointer_cast<const Array>(array);
  own->SetBegin(now);
  own->Touch(now);
  std::string token = registry_.Add(array);
  const std::lock_guard lock(mutex_);
  published_.emplace(token, std::move(own));
  return token;
}

absl::Status ResidentArrays::Delete(const std::string& token, absl::Time now) {
  std::shared_ptr<const Array> removed;  // destroyed outside of the lock
  const std::lock_guard lock(mutex_);
  const auto found = published_.find(token);
  if (found == published_.end()) return NotFound();
  removed = std::move(found->second);
  published_.erase(found);
  registry_.Remove(token);
  // An array that waits for the next sweep no longer exists for anybody: neither for reading nor for
  // deleting.
  return removed->IsExpired(now) ? NotFound() : absl::OkStatus();
}

void ResidentArrays::Expire(absl::Time now) {
  constexpr absl::Duration kInterval = absl::Seconds(1);
  std::vector<std::shared_ptr<const Array>> removed;  // destroyed outside of the lock
  const std::lock_guard lock(mutex_);
  if (now < next_sweep_) return;
  next_sweep_ = now + kInterval;
  SweepLocked(now, &removed);
}

void ResidentArrays::SweepLocked(absl::Time now, std::vector<std::shared_ptr<const Array>>* removed) {
  for (auto array = published_.begin(); array != published_.end();) {
    if (!array->second->IsExpired(now)) {
      ++array;
      continue;
    }
    registry_.Remove(array->first);
    removed->push_back(std::move(array->second));
    array = published_.erase(array);
  }
}

std::vector<ResidentArrays::Info> ResidentArrays::List(const std::string& owner, absl::Time now) {
  std::vector<std::shared_ptr<const Array>> removed;  // destroyed outside of the lock
  std::vector<Info> infos;
  const std::lock_guard lock(mutex_);
  SweepLocked(now, &removed);
  for (const auto& [token, array] : published_) {
    if (owner.empty() || array->request().owner == owner) infos.push_back(array->InfoAt(now));
  }
  std::sort(infos.begin(), infos.end(), [](const Info& a, const Info& b) { return a.id < b.id; });
  return infos;
}

absl::StatusOr<ResidentArrays::Info> ResidentArrays::Find(const std::string& token, absl::Time now) const {
  const std::lock_guard lock(mutex_);
  const auto found = published_.find(token);
  if (found == published_.end() || found->second->IsExpired(now)) return NotFound();
  return found->second->InfoAt(now);
}

ResidentArrays::Room ResidentArrays::room() const {
  if (pool_ == nullptr) return {};
  const std::lock_guard lock(pool_->mutex);
  return {.bytes = pool_->ranges.bytes(),
          .free_bytes = pool_->ranges.free_bytes(),
          .largest_free_bytes = pool_->ranges.LargestArray(),
          .arrays = pool_->arrays};
}

}  // namespace warpfold::server
