// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/memory/memfd.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

namespace warpfold::server {
namespace {

bool IsLarge(int memfd) {
  struct stat file = {};
  return fstat(memfd, &file) == 0 && file.st_size > static_cast<off_t>(kUnmappedBytes);
}

void Unmap(std::span<const std::byte> bytes) { munmap(const_cast<std::byte*>(bytes.data()), bytes.size()); }

// One after the other: a user must have as much memory as it wants this thread to be busy with.
class Releaser {
 public:
  void Release(std::shared_ptr<const void> last) {
    std::deque<std::shared_ptr<const void>> here;  // destroyed outside of the lock
    const std::lock_guard lock(mutex_);
    left_.push_back(std::move(last));
    if (runs_) return;
    try {
      std::thread([this] { Run(); }).detach();
      runs_ = true;
    } catch (const std::system_error&) {  // there are no threads
      here.swap(left_);
    }
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (!left_.empty()) {
      std::shared_ptr<const void> next = std::move(left_.front());
      left_.pop_front();
      lock.unlock();
      next = nullptr;
      lock.lock();
    }
    runs_ = false;
  }

  std::mutex mutex_;
  std::deque<std::shared_ptr<const void>> left_;  // guarded by mutex_
  bool runs_ = false;                             // likewise
};

void ReleaseElsewhere(std::shared_ptr<const void> last) {
  static Releaser& releaser = *new Releaser;  // the process' end does not wait for its thread
  releaser.Release(std::move(last));
}

}  // namespace

Memfd::~Memfd() {
  if (is_open() && IsLarge(get())) ReleaseElsewhere(std::make_shared<FileDescriptor>(std::move(descriptor_)));
}

Mapping::Mapping(const Memfd& memfd, std::uint64_t byte_count) : is_of_large_file_(IsLarge(memfd.get())) {
  void* const address = mmap(nullptr, byte_count, PROT_READ, MAP_SHARED, memfd.get(), 0);
  if (address != MAP_FAILED) bytes_ = {static_cast<const std::byte*>(address), byte_count};
}

Mapping::~Mapping() {
  if (!bytes_.empty()) Unmap(bytes_);
}

bool Mapping::UnmapNext() {
  if (bytes_.size() <= kUnmappedBytes) return false;
  Unmap(bytes_.first(kUnmappedBytes));
  bytes_ = bytes_.subspan(kUnmappedBytes);
  return bytes_.size() > kUnmappedBytes;
}

std::weak_ptr<const void> UnmapElsewhere(Mapping mapping) {
  auto last = std::make_shared<const Mapping>(std::move(mapping));
  std::weak_ptr<const void> done = last;
  ReleaseElsewhere(std::move(last));
  return done;
}

}  // namespace warpfold::server
