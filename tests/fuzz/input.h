// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads a fuzzer's bytes as the numbers and strings that a target asks for, one after the other. When there
// are no more bytes it reads zeros, so that every input is a whole case.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

namespace warpfold::fuzz {

// Ends the process if a target finds something wrong, which is how a fuzzer learns of it.
inline void Expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::abort();
}

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}

  bool empty() const { return rest_.empty(); }

  // A number below `n`, which is positive, made from one byte or eight.
  std::uint64_t Below(std::uint64_t n) {
    std::uint64_t number = 0;
    for (int i = 0; i < (n <= 256 ? 1 : 8); ++i) number = number << 8 | Byte();
    return number % n;
  }
  bool OneIn(std::uint64_t n) { return Below(n) == 0; }
  std::uint64_t Number() { return Below(~std::uint64_t{0}); }

  // As many bytes as there are, at most this many.
  std::string Bytes(std::size_t most) {
    const auto bytes = rest_.first(std::min(most, rest_.size()));
    rest_ = rest_.subspan(bytes.size());
    return {bytes.begin(), bytes.end()};
  }
  std::string Rest() { return Bytes(rest_.size()); }

  // Where to cut this many bytes: up to three places, in ascending order.
  std::vector<std::size_t> Cuts(std::size_t bytes) {
    std::vector<std::size_t> cuts(Below(4));
    for (std::size_t& cut : cuts) cut = Below(bytes + 1);
    std::sort(cuts.begin(), cuts.end());
    return cuts;
  }

 private:
  std::uint8_t Byte() {
    if (rest_.empty()) return 0;
    const std::uint8_t byte = rest_.front();
    rest_ = rest_.subspan(1);
    return byte;
  }

  std::span<const std::uint8_t> rest_;
};

}  // namespace warpfold::fuzz
