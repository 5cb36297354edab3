// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// CRC32C (Castagnoli, RFC 3720), the checksum of chunks and commits. Kept by ourselves, since the packages
// have the fast loops of others as a shared library only: docs/adr/0026.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace warpfold::proto {

// The checksum of bytes that arrive in pieces. Threads: a value type; distinct objects are independent.
class Crc32c {
 public:
  void Extend(std::span<const std::byte> bytes);

  // Does what Extend does for `count` bytes whose own checksum is `crc32c`: bytes are looked at once, even
  // where the checksum of a part and that of the whole are both wanted.
  void ExtendBy(std::uint32_t crc32c, std::uint64_t count);

  // The checksum of everything extended so far; 0 for no bytes.
  std::uint32_t value() const { return ~register_; }

 private:
  std::uint32_t register_ = ~std::uint32_t{0};
};

inline std::uint32_t ComputeCrc32c(std::span<const std::byte> bytes) {
  Crc32c crc;
  crc.Extend(bytes);
  return crc.value();
}

// The register after `bytes`, on any processor; a register is the complement of a checksum. What Crc32c falls
// back to, and is tested against.
std::uint32_t PortableCrc32c(std::uint32_t crc_register, std::span<const std::byte> bytes);

}  // namespace warpfold::proto
