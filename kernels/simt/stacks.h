// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Stacks of fibers, which outlive them: thousands of threads take turns on as many as are alive at once. Each
// ends at a page that may not be touched.
//
// Threads: each has its own. With its page, each stack takes two mappings, of which a process may have some
// tens of thousands.
#pragma once

#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstddef>
#include <vector>

namespace warpfold::kernels::simt {

class Stacks {
 public:
  static Stacks& OfThisThread() {
    static thread_local Stacks stacks;
    return stacks;
  }

  ~Stacks() {
    for (auto& stack : idle_) allocator_.deallocate(stack);
  }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  // The allocator from which Boost.Context takes stacks.
  struct Allocator {
    Stacks* stacks;
    boost::context::stack_context allocate() { return stacks->Take(); }
    void deallocate(boost::context::stack_context& stack) { stacks->idle_.push_back(stack); }
  };

 private:
  Stacks() = default;

  static constexpr std::size_t kStackBytes = 128 << 10;

  boost::context::stack_context Take() {
    if (idle_.empty()) return allocator_.allocate();
    const boost::context::stack_context stack = idle_.back();
    idle_.pop_back();
    return stack;
  }

  boost::context::protected_fixedsize_stack allocator_{kStackBytes};
  std::vector<boost::context::stack_context> idle_;
};

}  // namespace warpfold::kernels::simt
