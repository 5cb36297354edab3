// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What blocks see of memory that they share. Kernels read and write it through plain pointers; so each block
// has its own view, which is in the memory itself while one of the block's threads runs.
//
//   a write      is in the block's view alone, until the block releases
//   a release    brings what the block has written to the memory that all can see
//   an acquire   brings that to the block's view, except for what the block wrote and has not released
//
// Between them nothing has to become visible, but anything may: BringSome makes a random part visible. What a
// block has not released when it ends becomes visible when the launch ends (Finish).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/simt/chance.h"

namespace warpfold::kernels::simt {

class Visibility {
 public:
  // What a block sees when it does not run, and what it saw when it last synchronised.
  struct View {
    std::vector<std::byte> now;
    std::vector<std::byte> before;
  };

  explicit Visibility(std::vector<std::span<std::byte>> memory);

  // The view of a block that begins: it sees what is visible now.
  View Begin() const { return {visible_, visible_}; }
  // Enter puts the view into the memory, and Leave takes it out again. Between the two its block runs, and
  // these may be called:
  void Enter(View& view);
  void Leave(View& view);

  void Release(View& view);
  void Acquire(View& view);
  void BringSome(View& view, Chance& chance);
  // An atomic operation has written this word, visible to all.
  void Update(View& view, unsigned* word);
  // What all blocks see of a word; the word itself if it is not in memory that blocks share.
  unsigned Load(const unsigned* word) const;

  // The block of this view, which is in the memory, has ended.
  void End(View& view);
  // The launch has ended: everything is visible.
  void Finish();

 private:
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  // Returns where in a view a byte of the memory is.
  std::size_t OffsetOf(const void* byte) const;
  // Calls visit(offset, word in the memory) for each 4 bytes.
  template <class Visit>
  void ForEachWord(const Visit& visit) const;

  struct Write {
    std::size_t offset;
    std::byte value;
  };

  const std::vector<std::span<std::byte>> memory_;
  std::vector<std::byte> visible_;
  std::vector<Write> unreleased_;  // by blocks that have ended
};

}  // namespace warpfold::kernels::simt
