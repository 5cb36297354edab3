// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// CRC32C (Castagnoli, RFC 3720), the checksum of chunks and commits.
#pragma once

#include <boost/crc.hpp>
#include <cstddef>
#include <cstdint>
#include <span>

namespace warpfold::proto {

// The checksum of bytes that arrive in pieces. Threads: a value type; distinct objects are independent.
class Crc32c {
 public:
  void Extend(std::span<const std::byte> bytes) { crc_.process_bytes(bytes.data(), bytes.size()); }

  // Of everything extended so far; 0 for no bytes.
  std::uint32_t value() const { return crc_.checksum(); }

 private:
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc_;
};

inline std::uint32_t ComputeCrc32c(std::span<const std::byte> bytes) {
  Crc32c crc;
  crc.Extend(bytes);
  return crc.value();
}

}  // namespace warpfold::proto
