// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/simt/executor.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/simt/vocabulary.h"
#include "kernels/simt/where.h"

namespace warpfold::kernels::simt {
namespace {

// Limits on what is resident at once, so that stacks and views do not exhaust the host's memory.
constexpr unsigned kMaxBlocks = 8;
constexpr unsigned kMaxThreads = 2048;
// What a GPU gives a block by default.
constexpr std::size_t kStaticSharedBytes = 48 << 10;

thread_local Executor* running = nullptr;

std::vector<std::span<std::byte>> SpansOf(const auto& memory) {
  std::vector<std::span<std::byte>> spans;
  for (const auto& part : memory) spans.emplace_back(part.bytes.get(), part.size);
  return spans;
}

}  // namespace

Executor& Executor::Running() { return *running; }

Executor::Executor(Device& device, const LaunchSpec& spec, const std::function<void()>& kernel)
    : device_(device),
      spec_(spec),
      kernel_(kernel),
      schedule_(device.seed_, device.launches_),
      visibility_(SpansOf(device.memory_)) {}

void Executor::Run() {
  running = this;
  blockDim = {spec_.threads, 1, 1};
  gridDim = {spec_.blocks, 1, 1};
  const std::vector<unsigned> order = schedule_.BlockOrder(spec_.blocks);
  const unsigned most = std::clamp(kMaxThreads / spec_.threads, 1u, kMaxBlocks);
  const unsigned resident = spec_.is_cooperative ? spec_.blocks : schedule_.BlocksAtOnce(most);
  std::size_t begun = 0;
  while (!HasFailed()) {
    while (blocks_.size() < resident && begun < order.size()) blocks_.push_back(BeginBlock(order[begun++]));
    if (blocks_.empty()) break;
    Block* const block = ChooseBlock();
    if (block == nullptr) {
      FailStuck();
      break;
    }
    RunBlock(*block);
    if (block->alive == 0) std::erase_if(blocks_, [&](const auto& b) { return b.get() == block; });
  }
  blocks_.clear();  // which ends fibers that still wait after a failure
  visibility_.Finish();
  running = nullptr;
}

std::unique_ptr<Executor::Block> Executor::BeginBlock(unsigned number) {
  auto block = std::make_unique<Block>();
  block->number = number;
  block->alive = spec_.threads;
  block->view = visibility_.Begin();
  block->shared.reset(new std::byte[kStaticSharedBytes + spec_.shared_bytes]);
  FillByChance(block->shared.get() + kStaticSharedBytes, spec_.shared_bytes);
  block->threads.resize(spec_.threads);
  block->warps.resize((spec_.threads + kLanesOfWarp - 1) / kLanesOfWarp);
  const std::vector<std::uint64_t> ranks = schedule_.FirstRanks(spec_.threads);
  for (unsigned i = 0; i < spec_.threads; ++i) {
    Thread& thread = block->threads[i];
    thread.number = i;
    thread.rank = ranks[i];
    block->warps[i / kLanesOfWarp].lanes |= 1u << i % kLanesOfWarp;
    BeginThread(*block, thread);
    block->runnable.emplace_back(thread.rank, i);
  }
  std::make_heap(block->runnable.begin(), block->runnable.end());
  return block;
}

void Executor::BeginThread(Block& block, Thread& thread) {
  thread.fiber = boost::context::fiber(std::allocator_arg, Stacks::Allocator{&Stacks::OfThisThread()},
                                       [this, &block, &thread](boost::context::fiber&& scheduler) {
                                         thread.scheduler = std::move(scheduler);
                                         kernel_();
                                         EndThread(block, thread);
                                         return std::move(thread.scheduler);
                                       });
}

void Executor::EndThread(Block& block, Thread& thread) {
  thread.doing = Doing::kHasEnded;
  --block.alive;
  Warp& warp = block.warps[thread.number / kLanesOfWarp];
  warp.lanes &= ~(1u << thread.number % kLanesOfWarp);
  // Others may have been waiting only for this thread.
  if (block.alive > 0 && block.at_barrier == block.alive) PassBarrier(block);
  const unsigned first = thread.number / kLanesOfWarp * kLanesOfWarp;
  for (unsigned lane = 0; lane < kLanesOfWarp && warp.waiting != 0; ++lane) {
    if (warp.waiting >> lane & 1) TryToMeet(block, block.threads[first + lane]);
  }
}

// Any block that has a thread to run, chosen at random; with seed 0 the first one.
Executor::Block* Executor::ChooseBlock() {
  const auto can_run = [](const auto& block) { return !block->runnable.empty(); };
  const auto count = static_cast<std::uint32_t>(std::count_if(blocks_.begin(), blocks_.end(), can_run));
  if (count == 0) return nullptr;
  std::uint32_t chosen = schedule_.is_random() ? schedule_.chance().Below(count) : 0;
  for (const auto& block : blocks_) {
    if (can_run(block) && chosen-- == 0) return block.get();
  }
  return nullptr;
}

void Executor::RunBlock(Block& block) {
  block_ = &block;
  blockIdx = {block.number, 0, 0};
  Enter(block);
  turns_ = schedule_.Turns();
  while (turns_ > 0 && !block.runnable.empty() && !HasFailed()) {
    --turns_;
    std::pop_heap(block.runnable.begin(), block.runnable.end());
    Thread& thread = block.threads[block.runnable.back().second];
    block.runnable.pop_back();
    Resume(thread);
  }
  if (block.alive > 0) return;
  visibility_.End(block.view);
  entered_ = nullptr;
}

// A block that continues finds its view as it left it.
void Executor::Enter(Block& block) {
  if (entered_ == &block) return;
  if (entered_ != nullptr) {
    if (schedule_.shows_early()) visibility_.BringSome(entered_->view, schedule_.chance());
    visibility_.Leave(entered_->view);
  }
  visibility_.Enter(block.view);
  entered_ = &block;
}

void Executor::Resume(Thread& thread) {
  thread_ = &thread;
  threadIdx = {thread.number, 0, 0};
  thread.fiber = std::move(thread.fiber).resume();
}

void Executor::Suspend() {
  Thread& thread = *thread_;
  thread.scheduler = std::move(thread.scheduler).resume();
}

void Executor::MakeRunnable(Block& block, Thread& thread) {
  thread.doing = Doing::kRuns;
  thread.rank = schedule_.NextRank(thread.rank);
  block.runnable.emplace_back(thread.rank, thread.number);
  std::push_heap(block.runnable.begin(), block.runnable.end());
}

void Executor::SyncBlock(const Where& where) {
  if (IsRemoved(where, Part::kBarrier)) return;
  thread_->doing = Doing::kWaitsForBlock;
  thread_->where = where;
  ++block_->at_barrier;
  if (block_->at_barrier == block_->alive) PassBarrier(*block_);
  Suspend();
}

void Executor::PassBarrier(Block& block) {
  const Thread* first = nullptr;
  for (const Thread& thread : block.threads) {
    if (thread.doing != Doing::kWaitsForBlock) continue;
    if (first == nullptr) first = &thread;
    if (!AreSame(first->where, thread.where)) {
      return Fail(block, thread,
                  absl::StrCat(Waiting(thread), ", but thread ", first->number, " ", Waiting(*first)));
    }
  }
  block.at_barrier = 0;
  for (Thread& thread : block.threads) {
    if (thread.doing == Doing::kWaitsForBlock) MakeRunnable(block, thread);
  }
}

void Executor::SyncGrid(const Where& where) {
  if (IsRemoved(where, Part::kBarrier)) return;
  thread_->doing = Doing::kWaitsForGrid;
  thread_->where = where;
  if (!spec_.is_cooperative) {
    Fail(*block_, *thread_, "waits for the grid, but the launch is not cooperative");
  } else if (++at_grid_barrier_ == std::uint64_t{spec_.blocks} * spec_.threads) {
    PassGrid();
  }
  Suspend();
}

void Executor::PassGrid() {
  at_grid_barrier_ = 0;
  for (const auto& block : blocks_) {
    Enter(*block);
    visibility_.Release(block->view);
  }
  for (const auto& block : blocks_) {
    Enter(*block);
    visibility_.Acquire(block->view);
    for (Thread& thread : block->threads) MakeRunnable(*block, thread);
  }
  Enter(*block_);
}

void Executor::Fence(const Where& where) {
  if (!IsRemoved(where, Part::kRelease)) visibility_.Release(block_->view);
  if (!IsRemoved(where, Part::kAcquire)) visibility_.Acquire(block_->view);
}

unsigned Executor::ChangeAtomically(unsigned* address, Order order,
                                    const std::function<unsigned(unsigned)>& change, const Where& where) {
  if (schedule_.is_random()) {  // others, also of other blocks, may come before it
    if (schedule_.chance().OneIn(2)) turns_ = 0;
    MakeRunnable(*block_, *thread_);
    Suspend();
  }
  const bool orders = order == Order::kAcquireRelease;
  if (orders && !IsRemoved(where, Part::kRelease)) visibility_.Release(block_->view);
  const unsigned before = visibility_.Load(address);
  *address = change(before);
  visibility_.Update(block_->view, address);
  if (orders && !IsRemoved(where, Part::kAcquire)) visibility_.Acquire(block_->view);
  return before;
}

std::byte* Executor::SharedMemory(const void* key, std::size_t bytes) {
  std::byte* const shared = block_->shared.get();
  if (key == nullptr) return shared + kStaticSharedBytes;
  for (const SharedVariable& variable : block_->variables) {
    if (variable.key == key) return shared + variable.offset;
  }
  const std::size_t offset = block_->shared_bytes;
  const std::size_t end = offset + (bytes + 15) / 16 * 16;
  if (end > kStaticSharedBytes) {
    Fail(*block_, *thread_,
         absl::StrCat("declares ", end, " bytes of shared memory; there are ", kStaticSharedBytes));
    Suspend();
  }
  block_->variables.push_back({key, offset});
  block_->shared_bytes = end;
  FillByChance(shared + offset, bytes);
  return shared + offset;
}

void Executor::FillByChance(std::byte* bytes, std::size_t count) {
  for (std::size_t i = 0; i < count; i += sizeof(std::uint64_t)) {
    const std::uint64_t word = schedule_.chance().Next();
    std::memcpy(bytes + i, &word, std::min(sizeof word, count - i));
  }
}

bool Executor::IsRemoved(const Where& where, Part part) const {
  if (device_.noted_ != nullptr) device_.noted_->insert({FileOf(where), where.line(), part});
  const Site* const removed = device_.removed_;
  return removed != nullptr && removed->part == part && removed->line == where.line() &&
         removed->file == FileOf(where);
}

void Executor::Fail(const Block& block, const Thread& thread, const std::string& what) {
  if (HasFailed()) return;
  device_.failure_ =
      absl::StrCat(spec_.kernel, ", block ", block.number, ", thread ", thread.number, ": ", what);
}

// No thread can run: the failure names the first thread that waits, and one that it waits for.
void Executor::FailStuck() {
  for (const auto& block : blocks_) {
    for (const Thread& thread : block->threads) {
      if (thread.doing == Doing::kHasEnded) continue;
      for (const Thread& other : block->threads) {
        if (other.doing == thread.doing && AreSame(other.where, thread.where)) continue;
        return Fail(*block, thread,
                    absl::StrCat(Waiting(thread), ", but thread ", other.number, " ", Waiting(other)));
      }
      return Fail(*block, thread, absl::StrCat(Waiting(thread), ", which others never reach"));
    }
  }
}

std::string Executor::Waiting(const Thread& thread) const {
  switch (thread.doing) {
    case Doing::kRuns:
      return "runs";
    case Doing::kWaitsForBlock:
      return absl::StrCat("waits for its block at ", Place(thread.where));
    case Doing::kWaitsForWarp:
      return absl::StrCat("waits for lanes ", absl::Hex(thread.mask, absl::kZeroPad8), " at ",
                          Place(thread.where));
    case Doing::kWaitsForGrid:
      return absl::StrCat("waits for the grid at ", Place(thread.where));
    case Doing::kHasEnded:
      return "has ended";
  }
  return "";
}

}  // namespace warpfold::kernels::simt
