// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The product of two matrices of 32-bit integers, 16 x 16 or 32 x 32, on the tensor cores: these multiply
// bytes and add up in 32 bits, exactly. A factor is split into planes, one for each byte of its entries; the
// products of planes p and q count 2^(8 (p + q)), and sums of them with the same p + q share an accumulator.
// (Integers from products of their digits on matrix units: H. Ootomo, K. Ozaki, R. Yokota, "DGEMM on integer
// matrix multiplication unit", Int. J. High Perform. Comput. Appl. 38 (2024).)
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/matrix/matrix_plan.h"
#include "kernels/cuda/matrix/matrix_tile.cuh"
#include "kernels/cuda/tuning.h"
#include "kernels/operators/matrix_terms.h"

namespace warpfold::kernels::cuda {

inline constexpr int kPlanes = 4;  // bytes of an entry

// Makes an entry from its sums: sums[s] counts 2^(8 s), and is at most 4 x 32 x 255^2, from four pairs of
// planes with 32 products each. That is below 2^23, so that a + (b << 8) fits in 32 bits. In this ring it is
// taken modulo 2^32.
inline __device__ std::uint32_t FinishDigits(const RingTerms<std::uint32_t>&,
                                             const std::uint32_t (&sums)[4]) {
  return sums[0] + (sums[1] << 8) + (sums[2] << 16) + (sums[3] << 24);
}
inline __device__ std::uint32_t FinishDigits(const CongruentTerms<std::uint32_t>& terms,
                                             const std::uint32_t (&sums)[7]) {
  const std::uint64_t low = sums[0] + (sums[1] << 8) + (std::uint64_t{sums[2] + (sums[3] << 8)} << 16);
  const std::uint64_t high = sums[4] + (sums[5] << 8) + (std::uint64_t{sums[6]} << 16);
  const std::uint64_t upper = high + (low >> 32);
  return terms.Finish(
      {upper << 32 | static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(upper >> 32)});
}

// A warp computes 16 rows of the product, in steps of 16 x 8 entries. The four lanes of a group in the warp
// hold different columns of the same rows (PTX ISA, matrix fragments for mma.m16n8k32). We may choose which
// column of the matrix a step's column is: the columns of a lane, over all steps, are adjacent.
template <class Terms_, int kDimension_>
class TensorTile {
 public:
  using Terms = Terms_;
  using Entry = std::uint32_t;
  static constexpr std::uint32_t kDimension = kDimension_;
  static constexpr int kLanesEach = 2 * kDimension_;
  static constexpr int kThreads = kLanesEach;
  static constexpr int kProducts = 1;  // that a block computes at once
  static constexpr int kVector = kVectorBytes / sizeof(Entry);
  static WARPFOLD_FN constexpr TileShape Shape() {
    return {sizeof(Entry), kLanesEach / 8, 8, kDimension, kVector, TensorTileWaitingLevels(kDimension_)};
  }
  static constexpr std::uint32_t kRowGap = Shape().RowStride(kDimension) - kDimension;
  static constexpr int kBlocksPerMultiprocessor = TensorTileBlocks(kDimension);
  static_assert(kDimension == 16 || kDimension == 32);

  // A warp's lanes read two rows of left factors at once, in four vectors each: rows four apart have these in
  // different banks.
  __device__ TensorTile(const Terms& terms, int thread, int)
      : terms_(terms),
        row_(thread / 32 * 16 + thread / 8 % 4 + thread / 4 % 2 * 4),
        group_(thread / 4 % 8),
        column_(thread % 4) {}

  __device__ __forceinline__ void Multiply(std::uint32_t a, std::uint32_t b) {
    std::uint32_t left[kPlanes][2 * kHalves];
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        std::uint32_t words[4];
        LoadWords<4>(a + (row_ + 8 * r) * kRowStride + 16 * h + 4 * column_, words);
        std::uint32_t planes[kPlanes];
        Split(words, planes);
#pragma unroll
        for (int p = 0; p < kPlanes; ++p) left[p][2 * h + r] = planes[p];
      }
    }
    // A lane's four terms of each half, for its columns in all steps.
    std::uint32_t rows[kHalves][4][kSteps];
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        LoadWords<kSteps>(b + (16 * h + 4 * column_ + i) * kRowStride + group_ * kSteps, rows[h][i]);
      }
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      std::uint32_t right[kPlanes][kHalves];
#pragma unroll
      for (int h = 0; h < kHalves; ++h) {
        const std::uint32_t words[4] = {rows[h][0][step], rows[h][1][step], rows[h][2][step],
                                        rows[h][3][step]};
        std::uint32_t planes[kPlanes];
        Split(words, planes);
#pragma unroll
        for (int p = 0; p < kPlanes; ++p) right[p][h] = planes[p];
      }
      MultiplyStep(left, right, step);
    }
  }

  __device__ __forceinline__ void Load(std::uint32_t from) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int c = 0; c < 2 * kSteps; c += kVector) LoadWords<4>(from + PlaceOf(r, c), &entries_[r][c]);
    }
  }
  __device__ __forceinline__ void Store(std::uint32_t to) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int c = 0; c < 2 * kSteps; c += kVector) {
        *reinterpret_cast<uint4*>(SharedEntries<Entry>() + to + PlaceOf(r, c)) =
            make_uint4(entries_[r][c], entries_[r][c + 1], entries_[r][c + 2], entries_[r][c + 3]);
      }
    }
  }

 private:
  static constexpr int kRowStride = static_cast<int>(kDimension + kRowGap);
  static constexpr int kHalves = kDimension_ / 16;  // of the terms
  static constexpr int kSteps = kDimension_ / 8;    // of the columns
  // Planes further up count multiples of 2^32.
  static constexpr int kSums = std::is_same_v<Terms, RingTerms<Entry>> ? kPlanes : 2 * kPlanes - 1;

  // The place of column c of the lane's row r (of two).
  __device__ __forceinline__ std::uint32_t PlaceOf(int r, int c) const {
    return static_cast<std::uint32_t>((row_ + 8 * r) * kRowStride + column_ * 2 * kSteps + c);
  }

  template <int kWords>
  static __device__ __forceinline__ void LoadWords(std::uint32_t from, std::uint32_t* words) {
    struct alignas(4 * kWords) Vector {
      std::uint32_t words[kWords];
    };
    const Vector vector = *reinterpret_cast<const Vector*>(SharedEntries<Entry>() + from);
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = vector.words[i];
  }

  // planes[p]: byte p of each word.
  static __device__ __forceinline__ void Split(const std::uint32_t (&words)[4],
                                               std::uint32_t (&planes)[kPlanes]) {
    const std::uint32_t low01 = __byte_perm(words[0], words[1], 0x5140);
    const std::uint32_t low23 = __byte_perm(words[2], words[3], 0x5140);
    const std::uint32_t high01 = __byte_perm(words[0], words[1], 0x7362);
    const std::uint32_t high23 = __byte_perm(words[2], words[3], 0x7362);
    planes[0] = __byte_perm(low01, low23, 0x5410);
    planes[1] = __byte_perm(low01, low23, 0x7632);
    planes[2] = __byte_perm(high01, high23, 0x5410);
    planes[3] = __byte_perm(high01, high23, 0x7632);
  }

  __device__ __forceinline__ void MultiplyStep(const std::uint32_t (&left)[kPlanes][2 * kHalves],
                                               const std::uint32_t (&right)[kPlanes][kHalves], int step) {
    std::uint32_t sums[kSums][4] = {};
#pragma unroll
    for (int p = 0; p < kPlanes; ++p) {
#pragma unroll
      for (int q = 0; q < kPlanes && p + q < kSums; ++q) AddProduct(sums[p + q], left[p], right[q]);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        std::uint32_t digits[kSums];
#pragma unroll
        for (int s = 0; s < kSums; ++s) digits[s] = sums[s][2 * r + c];
        entries_[r][c * kSteps + step] = FinishDigits(terms_, digits);
      }
    }
  }

  static __device__ __forceinline__ void AddProduct(std::uint32_t (&sums)[4], const std::uint32_t (&a)[4],
                                                    const std::uint32_t (&b)[2]) {
#if __CUDA_ARCH__ < 800
    const std::uint32_t first[2] = {a[0], a[1]};
    const std::uint32_t second[2] = {a[2], a[3]};
    AddProduct(sums, first, {b[0]});
    AddProduct(sums, second, {b[1]});
#else
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
  }
  // Before sm_80 this takes two products of eight rows, with the same fragments.
  static __device__ __forceinline__ void AddProduct(std::uint32_t (&sums)[4], const std::uint32_t (&a)[2],
                                                    const std::uint32_t (&b)[1]) {
#if __CUDA_ARCH__ < 800
    for (int rows = 0; rows < 2; ++rows) {
      asm("mma.sync.aligned.m8n8k16.row.col.s32.u8.u8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
          : "+r"(sums[2 * rows]), "+r"(sums[2 * rows + 1])
          : "r"(a[rows]), "r"(b[0]));
    }
#else
    asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(b[0]));
#endif
  }

  const Terms terms_;
  const int row_;     // the first of the lane's two rows, which are 8 apart
  const int group_;   // of four lanes
  const int column_;  // the lane's place in its group
  Entry entries_[2][2 * kSteps];
};

}  // namespace warpfold::kernels::cuda
