// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "proto/crc32c.h"

#include <boost/crc.hpp>
#include <cstring>

namespace warpfold::proto {
namespace {

// A checksum is a polynomial over the field of two elements, modulo this one; the highest bit is the
// coefficient of x^0.
constexpr std::uint32_t kPolynomial = 0x82f63b78;
constexpr std::uint32_t kOne = std::uint32_t{1} << 31;
constexpr std::uint32_t kXToThe8 = std::uint32_t{1} << 23;

constexpr std::uint32_t Multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? kPolynomial : 0);
  }
  return product;
}

// Zero bytes multiply a register by a power of x: `bytes` of them by x^(8 bytes), which this returns.
constexpr std::uint32_t ShiftBy(std::uint64_t bytes) {
  std::uint32_t shift = kOne;
  for (std::uint32_t power = kXToThe8; bytes != 0; bytes >>= 1, power = Multiply(power, power)) {
    if ((bytes & 1) != 0) shift = Multiply(shift, power);
  }
  return shift;
}

#if defined(__x86_64__)
// The instruction takes 3 cycles and one can begin in each cycle: three lanes keep it busy.
constexpr std::size_t kLaneBytes = 2048;
constexpr std::uint32_t kShiftByLane = ShiftBy(kLaneBytes);
constexpr std::uint32_t kShiftByTwoLanes = ShiftBy(2 * kLaneBytes);

std::uint64_t WordAt(const std::byte* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

__attribute__((target("sse4.2"))) std::uint32_t ThreeLanes(std::uint32_t crc_register, const std::byte* at) {
  std::uint64_t first = crc_register;
  std::uint64_t second = 0;
  std::uint64_t third = 0;
  for (const std::byte* end = at + kLaneBytes; at < end; at += sizeof(std::uint64_t)) {
    first = __builtin_ia32_crc32di(first, WordAt(at));
    second = __builtin_ia32_crc32di(second, WordAt(at + kLaneBytes));
    third = __builtin_ia32_crc32di(third, WordAt(at + 2 * kLaneBytes));
  }
  return Multiply(static_cast<std::uint32_t>(first), kShiftByTwoLanes) ^
         Multiply(static_cast<std::uint32_t>(second), kShiftByLane) ^ static_cast<std::uint32_t>(third);
}

__attribute__((target("sse4.2"))) std::uint32_t Sse42Crc32c(std::uint32_t crc_register,
                                                            std::span<const std::byte> bytes) {
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 3 * kLaneBytes; left -= 3 * kLaneBytes, at += 3 * kLaneBytes) {
    crc_register = ThreeLanes(crc_register, at);
  }
  std::uint64_t wide = crc_register;
  for (; left >= sizeof(std::uint64_t); left -= sizeof(std::uint64_t), at += sizeof(std::uint64_t)) {
    wide = __builtin_ia32_crc32di(wide, WordAt(at));
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

void Crc32c::ExtendBy(std::uint32_t crc32c, std::uint64_t count) {
  // The inversions at both ends of the part cancel out against those of the whole.
  register_ = ~(Multiply(~register_, ShiftBy(count)) ^ crc32c);
}

}  // namespace warpfold::proto
