// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The bytes of one Start on the CPU, from the first to the last, in whatever pieces they lie. Most are
// reduced where they are. Bytes that are needed in one piece but lie in several are copied to their place in
// the slot's staging buffer: as many bytes after its beginning as precede them in the pieces.
//
// Threads: only one at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "kernels/backend.h"

namespace warpfold::kernels::cpu {

class PieceCursor {
 public:
  // The pieces must live as long as this. `staging` is not used if there is one piece.
  PieceCursor(std::span<const HostPiece> pieces, std::byte* staging) : pieces_(pieces), staging_(staging) {}

  // How many bytes have been taken.
  std::uint64_t offset() const { return offset_; }

  // How many bytes from here on lie in one piece: at least one, unless all have been taken.
  std::uint64_t Contiguous() {
    while (!pieces_.empty() && in_piece_ == pieces_.front().size()) {
      pieces_ = pieces_.subspan(1);
      in_piece_ = 0;
    }
    return pieces_.empty() ? 0 : pieces_.front().size() - in_piece_;
  }

  // Takes the next bytes, which must be there, and returns where they lie in one piece.
  const std::byte* Take(std::uint64_t bytes) {
    if (Contiguous() >= bytes) return TakeHere(bytes);
    std::byte* const begin = staging_ + offset_;
    for (std::uint64_t left = bytes; left > 0;) {
      const std::uint64_t n = std::min(left, Contiguous());
      std::byte* const to = staging_ + offset_;
      const std::byte* const from = TakeHere(n);
      if (from != to) std::memcpy(to, from, n);  // bytes in staging are at their place already
      left -= n;
    }
    return begin;
  }

 private:
  const std::byte* TakeHere(std::uint64_t bytes) {
    if (bytes == 0) return staging_;
    const std::byte* const from = pieces_.front().data() + in_piece_;
    in_piece_ += bytes;
    offset_ += bytes;
    return from;
  }

  std::span<const HostPiece> pieces_;  // those that have not been taken whole
  std::byte* const staging_;
  std::uint64_t in_piece_ = 0;  // bytes of the first piece that have been taken
  std::uint64_t offset_ = 0;
};

}  // namespace warpfold::kernels::cpu
