// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Macros and functions that let one source serve the host compiler and nvcc.
#pragma once

#include <cstdint>
#include <cstring>

// Functions of operators: always inlined, so that no copy compiled for one instruction set can be
// linked into code that must run on another.
#if defined(__CUDACC__)
#define WARPFOLD_FN __host__ __device__ __forceinline__
#else
#define WARPFOLD_FN inline __attribute__((always_inline))
#endif
// The same, but called and not inlined on the device: for functions so large that a copy at each place of
// use would make kernels of megabytes.
#if defined(__CUDACC__)
#define WARPFOLD_LARGE_FN __host__ __device__ __noinline__
#else
#define WARPFOLD_LARGE_FN inline __attribute__((always_inline))
#endif

// Before a loop of a fixed, small length.
#if defined(__CUDA_ARCH__)
#define WARPFOLD_UNROLL _Pragma("unroll")
#elif defined(__CUDACC__)
#define WARPFOLD_UNROLL
#else
#define WARPFOLD_UNROLL _Pragma("GCC unroll 32")
#endif
// Before a loop that nvcc would unroll to megabytes.
#if defined(__CUDA_ARCH__)
#define WARPFOLD_KEEP_LOOP _Pragma("unroll 1")
#else
#define WARPFOLD_KEEP_LOOP
#endif

namespace warpfold::kernels {

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

// Like std::bit_cast, but always inlined, as everything that operators call (see above).
template <class To, class From>
WARPFOLD_FN To BitCast(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// a b + c, rounded once.
WARPFOLD_FN float FusedMultiplyAdd(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}
WARPFOLD_FN double FusedMultiplyAdd(double a, double b, double c) {
#if defined(__CUDA_ARCH__)
  return __fma_rn(a, b, c);
#else
  return __builtin_fma(a, b, c);
#endif
}

// Returns the smaller number. Given a comparison, nvcc compares what the numbers were computed from, in more
// instructions.
template <class Word>
WARPFOLD_FN Word Smaller(Word a, Word b) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(Word) == 4) {
    Word smaller;
    asm("min.u32 %0, %1, %2;" : "=r"(smaller) : "r"(a), "r"(b));
    return smaller;
  }
#endif
  return a < b ? a : b;
}

// Returns x - y if x is greater than `bound`, and otherwise x. nvcc would select y or 0 first.
template <class Word>
WARPFOLD_FN Word SubtractIfGreater(Word x, Word bound, Word y) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(Word) == 4) {
    asm("{\n\t"
        ".reg .pred greater;\n\t"
        "setp.gt.u32 greater, %0, %1;\n\t"
        "@greater sub.u32 %0, %0, %2;\n\t"
        "}"
        : "+r"(x)
        : "r"(bound), "r"(y));
    return x;
  }
#endif
  return x > bound ? x - y : x;
}

inline constexpr std::uint64_t kQuietNanBits = 0x7ff8000000000000u;

// NaN results and states are always this one, so that devices agree in bits. BitCast takes a reference, and
// in device code a constant has no address: hence the copy.
WARPFOLD_FN double CanonicalNan(double x) {
  return x != x ? BitCast<double>(std::uint64_t{kQuietNanBits}) : x;
}
WARPFOLD_FN float CanonicalNan(float x) { return x != x ? BitCast<float>(std::uint32_t{0x7fc00000u}) : x; }

}  // namespace warpfold::kernels
