// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the segments of an array end: all after the same number of elements, or as given by announced
// lengths.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace warpfold::server {

class SegmentCursor {
 public:
  // With `length`, all segments have this length, and there is no last one. Without it, Announce names the
  // lengths one by one.
  explicit SegmentCursor(std::optional<std::uint64_t> length) : length_(length) {}

  const std::optional<std::uint64_t>& length() const { return length_; }

  void Announce(std::uint64_t length) {
    // The memory of passed lengths is given back once they are the larger part.
    if (next_ > announced_.size() / 2) {
      announced_.erase(announced_.begin(), announced_.begin() + static_cast<std::ptrdiff_t>(next_));
      next_ = 0;
    }
    announced_.push_back(length);
  }

  bool HasNext() const { return length_.has_value() || next_ < announced_.size(); }
  std::uint64_t NextLength() const { return length_.has_value() ? *length_ : announced_[next_]; }
  void Pass() {
    if (!length_.has_value()) ++next_;
  }
  // There is nothing left to cut.
  void Forget() {
    announced_ = {};
    next_ = 0;
  }
  // How many lengths were announced and not passed yet.
  std::size_t waiting() const { return announced_.size() - next_; }

 private:
  const std::optional<std::uint64_t> length_;
  std::vector<std::uint64_t> announced_;
  std::size_t next_ = 0;
};

}  // namespace warpfold::server
