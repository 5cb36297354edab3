// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/python/native/mapped_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <utility>

#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace warpfold::python {

// Whole pages [begin, end); both are 0 if the slot is free. Of these, [missing, end) were replaced.
struct MappedRange::Slot {
  std::atomic<std::uintptr_t> begin = 0;
  std::atomic<std::uintptr_t> end = 0;
  std::atomic<std::uintptr_t> missing = 0;
  Slot* next = nullptr;
  Slot* next_free = nullptr;  // guarded by the mutex below
};

namespace {

using Slot = MappedRange::Slot;

// As many as ranges have lived at the same time. None is ever removed, since the signal handler may be
// reading it; new ones are put in front.
std::atomic<Slot*> slots = nullptr;

// The first slot of which this is true; null if there is none.
template <typename Predicate>
Slot* FindSlot(const Predicate& is_sought) {
  Slot* slot = slots;
  while (slot != nullptr && !is_sought(*slot)) slot = slot->next;
  return slot;
}

std::uintptr_t page_bytes = 4096;
// The process whose calls the slots belong to: a process that is forked from it has the slots, too, but not
// the calls.
std::atomic<pid_t> process = 0;

// A handler that is installed above ours may pass signals on to ours for ever, and the next call installs
// ours above it. That one is then another function, of the next level, and each passes signals on to the
// handler that was there before it: so there is no circle.
constexpr std::size_t kLevels = 4;
std::array<struct sigaction, kLevels> previous = {};

absl::Mutex mutex(absl::kConstInit);
int active ABSL_GUARDED_BY(mutex) = 0;
Slot* first_free ABSL_GUARDED_BY(mutex) = nullptr;
std::size_t used_levels ABSL_GUARDED_BY(mutex) = 0;

void NoteMissing(Slot& slot, std::uintptr_t from) {
  std::uintptr_t known = slot.missing.load();
  while ((known == 0 || from < known) && !slot.missing.compare_exchange_weak(known, from)) continue;
}

// Replaces the pages from this one to the end of the array: everything after the file's end is missing, too.
bool ReplaceMissingPages(std::uintptr_t page) {
  std::uintptr_t end = 0;
  for (const Slot* slot = slots; slot != nullptr; slot = slot->next) {
    if (slot->begin <= page && page < slot->end) end = std::max(end, slot->end.load());
  }
  if (end == 0 || mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                       MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED) {
    return false;
  }
  // Other arrays that lie there have lost the same pages.
  for (Slot* slot = slots; slot != nullptr; slot = slot->next) {
    if (slot->begin < end && page < slot->end) NoteMissing(*slot, std::max(page, slot->begin.load()));
  }
  return true;
}

template <std::size_t kLevel>
void OnBusError(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const std::uintptr_t page = reinterpret_cast<std::uintptr_t>(info->si_addr) & ~(page_bytes - 1);
  // Only accesses beyond the end of a mapped object have this code.
  if (info->si_code == BUS_ADRERR && getpid() == process && ReplaceMissingPages(page)) return;
  // The access is repeated, and then reaches the handler that was there before. A signal that somebody has
  // sent is not an access.
  sigaction(SIGBUS, &previous[kLevel], nullptr);
  if (info->si_code <= 0) raise(SIGBUS);
}

using Handler = void (*)(int, siginfo_t*, void*);
constexpr std::array<Handler, kLevels> handlers = {OnBusError<0>, OnBusError<1>, OnBusError<2>,
                                                   OnBusError<3>};

// kLevels for a handler that is not ours.
std::size_t LevelOf(const struct sigaction& action) {
  if ((action.sa_flags & SA_SIGINFO) == 0) return kLevels;
  return static_cast<std::size_t>(std::ranges::find(handlers, action.sa_sigaction) - handlers.begin());
}

void InstallHandler() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
  page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  process = getpid();
  struct sigaction current = {};
  sigaction(SIGBUS, nullptr, &current);
  if (LevelOf(current) < kLevels) return;
  // The last one has passed a signal on, and so has removed itself.
  if (used_levels > 0 && current.sa_sigaction == previous[used_levels - 1].sa_sigaction) --used_levels;
  if (used_levels == kLevels) return;
  previous[used_levels] = current;
  struct sigaction ours = {};
  ours.sa_sigaction = handlers[used_levels++];
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGBUS, &ours, nullptr);
}

void RemoveHandler() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
  struct sigaction current = {};
  sigaction(SIGBUS, nullptr, &current);
  const std::size_t level = LevelOf(current);
  if (level == kLevels) return;
  sigaction(SIGBUS, &previous[level], nullptr);
  used_levels = level;
}

}  // namespace

MappedRange::MappedRange(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const absl::MutexLock lock(&mutex);
  if (first_free != nullptr) {
    slot_ = std::exchange(first_free, first_free->next_free);
  } else {
    slot_ = new Slot;
    slot_->next = slots;
    slots = slot_;
  }
  if (active++ == 0) InstallHandler();
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  slot_->missing = 0;
  slot_->begin = begin & ~(page_bytes - 1);
  slot_->end = (begin + bytes.size() + page_bytes - 1) & ~(page_bytes - 1);
}

MappedRange::~MappedRange() {
  if (slot_ == nullptr) return;
  const absl::MutexLock lock(&mutex);
  const std::uintptr_t missing = slot_->missing;
  const std::uintptr_t end = slot_->end;
  slot_->end = 0;
  slot_->begin = 0;
  if (missing != 0) {
    Slot* const other =
        FindSlot([missing, end](const Slot& slot) { return slot.begin < end && slot.end > missing; });
    if (other != nullptr) {
      NoteMissing(*other, missing);  // It reads them still, and goes last.
    } else {
      mprotect(reinterpret_cast<void*>(missing), end - missing, PROT_NONE);
    }
  }
  slot_->next_free = std::exchange(first_free, slot_);
  if (--active == 0) RemoveHandler();
}

bool MappedRange::was_cut() const { return slot_ != nullptr && slot_->missing != 0; }

}  // namespace warpfold::python
