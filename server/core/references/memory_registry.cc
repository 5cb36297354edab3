// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/references/memory_registry.h"

#include <sys/random.h>

#include <algorithm>
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

NamedMemory::NamedMemory(std::vector<Part> parts, std::optional<ElementLayout> layout)
    : parts_(std::move(parts)), layout_(layout) {
  for (const Part& part : parts_) byte_count_ += part.byte_count;
}

NamedMemory::NamedMemory(std::shared_ptr<const kernels::Memory> memory, std::span<std::byte> writable)
    : byte_count_(memory->size()), writable_(writable) {
  parts_.push_back({.memory = std::move(memory), .byte_count = byte_count_});
}

kernels::MemoryPart NamedMemory::From(std::uint64_t byte_offset) const {
  auto part = parts_.begin();
  while (byte_offset >= part->byte_count && std::next(part) != parts_.end()) {
    byte_offset -= part->byte_count;
    ++part;
  }
  return {.memory = part->memory.get(),
          .byte_offset = part->byte_offset + byte_offset,
          .byte_count = part->byte_count - byte_offset};
}

std::vector<kernels::MemoryPart> NamedMemory::Range(std::uint64_t byte_offset,
                                                    std::uint64_t byte_count) const {
  std::vector<kernels::MemoryPart> range;
  while (byte_count > 0) {
    range.push_back(From(byte_offset));
    kernels::MemoryPart& part = range.back();
    part.byte_count = std::min(part.byte_count, byte_count);
    byte_offset += part.byte_count;
    byte_count -= part.byte_count;
  }
  return range;
}

bool NamedMemory::BeginWriting(std::uint64_t begin, std::uint64_t end) const {
  const std::lock_guard lock(writing_mutex_);
  const auto next = writing_.lower_bound(begin);
  if (next != writing_.end() && next->first < end) return false;
  if (next != writing_.begin() && std::prev(next)->second > begin) return false;
  writing_.emplace_hint(next, begin, end);
  return true;
}

void NamedMemory::EndWriting(std::uint64_t begin) const {
  const std::lock_guard lock(writing_mutex_);
  writing_.erase(begin);
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
                                                                        absl::Time now,
                                                                        const char* field) const {
  const std::lock_guard lock(mutex_);
  const auto found = named_.find(token);
  if (found != named_.end() && !found->second->IsExpired(now)) return found->second;
  return kernels::Error(absl::StatusCode::kNotFound, reason::kUnknownMemory,
                        "this server knows no memory and no array of this token (any more)",
                        {{"field", field}});
}

}  // namespace warpfold::server
