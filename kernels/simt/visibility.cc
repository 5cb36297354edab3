// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/simt/visibility.h"

#include <cstring>
#include <utility>

namespace warpfold::kernels::simt {
namespace {

constexpr std::size_t kWordBytes = 4;

}  // namespace

Visibility::Visibility(std::vector<std::span<std::byte>> memory) : memory_(std::move(memory)) {
  for (const auto part : memory_) visible_.insert(visible_.end(), part.begin(), part.end());
}

template <class Visit>
void Visibility::ForEachWord(const Visit& visit) const {
  std::size_t offset = 0;
  for (const auto part : memory_) {
    for (std::size_t i = 0; i < part.size(); i += kWordBytes, offset += kWordBytes) visit(offset, &part[i]);
  }
}

std::size_t Visibility::OffsetOf(const void* byte) const {
  std::size_t offset = 0;
  for (const auto part : memory_) {
    const auto* const at = static_cast<const std::byte*>(byte);
    if (at >= part.data() && at < part.data() + part.size()) return offset + (at - part.data());
    offset += part.size();
  }
  return kNowhere;
}

void Visibility::Enter(View& view) {
  std::size_t offset = 0;
  for (const auto part : memory_) {
    std::memcpy(part.data(), &view.now[offset], part.size());
    offset += part.size();
  }
}

void Visibility::Leave(View& view) {
  std::size_t offset = 0;
  for (const auto part : memory_) {
    std::memcpy(&view.now[offset], part.data(), part.size());
    offset += part.size();
  }
}

void Visibility::Release(View& view) {
  ForEachWord([&](std::size_t offset, const std::byte* word) {
    if (std::memcmp(word, &view.before[offset], kWordBytes) == 0) return;
    for (std::size_t i = 0; i < kWordBytes; ++i) {
      if (word[i] != view.before[offset + i]) visible_[offset + i] = view.before[offset + i] = word[i];
    }
  });
}

void Visibility::Acquire(View& view) {
  ForEachWord([&](std::size_t offset, std::byte* word) {
    if (std::memcmp(&visible_[offset], &view.before[offset], kWordBytes) == 0) return;
    for (std::size_t i = 0; i < kWordBytes; ++i) {
      if (word[i] == view.before[offset + i]) word[i] = view.before[offset + i] = visible_[offset + i];
    }
  });
}

void Visibility::BringSome(View& view, Chance& chance) {
  ForEachWord([&](std::size_t offset, std::byte* word) {
    std::byte* const before = &view.before[offset];
    std::byte* const seen = &visible_[offset];
    const bool is_written = std::memcmp(word, before, kWordBytes) != 0;
    if (!is_written && std::memcmp(seen, before, kWordBytes) == 0) return;
    if (chance.OneIn(2)) return;
    // One word at a time: the hardware does that much at once.
    std::memcpy(is_written ? seen : word, is_written ? word : seen, kWordBytes);
    std::memcpy(before, word, kWordBytes);
  });
}

unsigned Visibility::Load(const unsigned* word) const {
  const std::size_t offset = OffsetOf(word);
  unsigned value;
  std::memcpy(&value, offset == kNowhere ? reinterpret_cast<const std::byte*>(word) : &visible_[offset],
              sizeof value);
  return value;
}

void Visibility::Update(View& view, unsigned* word) {
  const std::size_t offset = OffsetOf(word);
  if (offset == kNowhere) return;
  std::memcpy(&visible_[offset], word, sizeof *word);
  std::memcpy(&view.before[offset], word, sizeof *word);
}

void Visibility::End(View& view) {
  ForEachWord([&](std::size_t offset, const std::byte* word) {
    for (std::size_t i = 0; i < kWordBytes; ++i) {
      if (word[i] != view.before[offset + i]) unreleased_.push_back({offset + i, word[i]});
    }
  });
  view = {};
}

void Visibility::Finish() {
  for (const Write& write : unreleased_) visible_[write.offset] = write.value;
  unreleased_.clear();
  std::size_t offset = 0;
  for (const auto part : memory_) {
    std::memcpy(part.data(), &visible_[offset], part.size());
    offset += part.size();
  }
}

}  // namespace warpfold::kernels::simt
