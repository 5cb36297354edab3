// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "proto/crc32c.h"

#include <boost/crc.hpp>
#include <cstring>

namespace warpfold::proto {
namespace {

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t Sse42Crc32c(std::uint32_t crc_register,
                                                            std::span<const std::byte> bytes) {
  std::uint64_t wide = crc_register;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= sizeof(std::uint64_t); left -= sizeof(std::uint64_t), at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof(word));
    wide = __builtin_ia32_crc32di(wide, word);
  }
  auto narrow = static_cast<std::uint32_t>(wide);
  for (; left > 0; --left, ++at) narrow = __builtin_ia32_crc32qi(narrow, static_cast<unsigned char>(*at));
  return narrow;
}
#endif

std::uint32_t ReverseBits(std::uint32_t value) {
  std::uint32_t reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= ((value >> bit) & 1U) << (31 - bit);
  return reversed;
}

}  // namespace

std::uint32_t PortableCrc32c(std::uint32_t crc_register, std::span<const std::byte> bytes) {
  // Boost takes and keeps its register in the unreflected order of bits.
  boost::crc_optimal<32, 0x1EDC6F41, 0, 0, true, true> engine(ReverseBits(crc_register));
  engine.process_bytes(bytes.data(), bytes.size());
  return engine.checksum();
}

void Crc32c::Extend(std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) {
    register_ = Sse42Crc32c(register_, bytes);
    return;
  }
#endif
  register_ = PortableCrc32c(register_, bytes);
}

}  // namespace warpfold::proto
