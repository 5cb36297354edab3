// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/python/native/mapped_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>

#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace warpfold::python {

// Whole pages [begin, end); both are 0 where the slot is free. Of these, [missing, end) were replaced.
struct MappedRange::Slot {
  std::atomic<std::uintptr_t> begin = 0;
  std::atomic<std::uintptr_t> end = 0;
  std::atomic<std::uintptr_t> missing = 0;
};

namespace {

using Slot = MappedRange::Slot;

// More than the calls that asyncio's client has under way.
std::array<Slot, 256> slots;
std::uintptr_t page_bytes = 4096;
struct sigaction previous = {};

absl::Mutex mutex(absl::kConstInit);
int active ABSL_GUARDED_BY(mutex) = 0;

void NoteMissing(Slot& slot, std::uintptr_t from) {
  std::uintptr_t known = slot.missing.load();
  while ((known == 0 || from < known) && !slot.missing.compare_exchange_weak(known, from)) continue;
}

// Replaces the pages from this one to the end of the array: what lies behind the file's end is missing, too.
bool ReplaceMissingPages(std::uintptr_t page) {
  std::uintptr_t end = 0;
  for (const Slot& slot : slots) {
    if (slot.begin <= page && page < slot.end) end = std::max(end, slot.end.load());
  }
  if (end == 0 || mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                       MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED) {
    return false;
  }
  // Other arrays that lie there have lost the same pages.
  for (Slot& slot : slots) {
    if (slot.begin < end && page < slot.end) NoteMissing(slot, std::max(page, slot.begin.load()));
  }
  return true;
}

void OnBusError(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const std::uintptr_t page = reinterpret_cast<std::uintptr_t>(info->si_addr) & ~(page_bytes - 1);
  // Only accesses beyond the end of a mapped object have this code.
  if (info->si_code == BUS_ADRERR && ReplaceMissingPages(page)) return;
  // The access is repeated, and meets who was there before. What somebody has sent is no access.
  sigaction(SIGBUS, &previous, nullptr);
  if (info->si_code <= 0) raise(SIGBUS);
}

bool IsOurs(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == OnBusError;
}

void InstallHandler() {
  page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction current = {};
  sigaction(SIGBUS, nullptr, &current);
  if (IsOurs(current)) return;
  previous = current;
  struct sigaction ours = {};
  ours.sa_sigaction = OnBusError;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGBUS, &ours, nullptr);
}

void RemoveHandler() {
  struct sigaction current = {};
  sigaction(SIGBUS, nullptr, &current);
  if (IsOurs(current)) sigaction(SIGBUS, &previous, nullptr);
}

}  // namespace

MappedRange::MappedRange(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const absl::MutexLock lock(&mutex);
  if (active++ == 0) InstallHandler();
  const auto free = std::find_if(slots.begin(), slots.end(), [](const Slot& slot) { return slot.end == 0; });
  if (free == slots.end()) {
    --active;
    return;
  }
  slot_ = &*free;
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
    const auto other = std::find_if(slots.begin(), slots.end(), [missing, end](const Slot& slot) {
      return slot.begin < end && slot.end > missing;
    });
    if (other != slots.end()) {
      NoteMissing(*other, missing);  // It reads them still, and goes last.
    } else {
      mprotect(reinterpret_cast<void*>(missing), end - missing, PROT_NONE);
    }
  }
  if (--active == 0) RemoveHandler();
}

bool MappedRange::was_cut() const { return slot_ != nullptr && slot_->missing != 0; }

}  // namespace warpfold::python
