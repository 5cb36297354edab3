// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/memory_registry.h"

#include <sys/random.h>

#include <cstdlib>
#include <utility>

#include "kernels/error.h"
#include "proto/error_reasons.h"

namespace warpfold::server {

std::string RandomToken() {
  std::string token(kTokenBytes, '\0');
  // Cannot fail, nor return less, for so few bytes once the system has started (getrandom(2)).
  if (getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) std::abort();
  return token;
}

std::shared_ptr<const NamedMemory> NamedMemory::Use(std::shared_ptr<const NamedMemory> memory,
                                                    const Clock& clock) {
  ++memory->users_;
  const NamedMemory* const used = memory.get();
  return {used, [memory = std::move(memory), &clock](const NamedMemory*) {
            memory->Touch(clock());
            --memory->users_;
          }};
}

std::string MemoryRegistry::Add(std::shared_ptr<const NamedMemory> memory) {
  const std::lock_guard lock(mutex_);
  std::string token = make_token_();
  named_[token] = std::move(memory);
  return token;
}

void MemoryRegistry::Remove(const std::string& token) {
  std::shared_ptr<const NamedMemory> removed;  // destroyed outside of the lock
  const std::lock_guard lock(mutex_);
  const auto found = named_.find(token);
  if (found == named_.end()) return;
  removed = std::move(found->second);
  named_.erase(found);
}

absl::StatusOr<std::shared_ptr<const NamedMemory>> MemoryRegistry::Find(const std::string& token,
                                                                        absl::Time now) const {
  const std::lock_guard lock(mutex_);
  const auto found = named_.find(token);
  if (found != named_.end() && !found->second->IsExpired(now)) return found->second;
  return kernels::Error(absl::StatusCode::kNotFound, reason::kUnknownMemory,
                        "this server knows no memory and no array of this token (any more)",
                        {{"field", "reference.token"}});
}

}  // namespace warpfold::server
