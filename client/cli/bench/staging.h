// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where a sink puts the bytes that it receives.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace warpfold::cli {

// A buffer that is filled from beginning to end, over and over. It is too large for a core's cache, as the
// slots of a server are. Threads: one at a time.
class Staging {
 public:
  static constexpr std::size_t kBytes = std::size_t{64} << 20;

  Staging();

  void Append(std::span<const std::byte> bytes);

  // The next `most` bytes, or fewer at the end of the buffer, for the caller to fill.
  std::span<std::byte> Next(std::size_t most);

 private:
  std::unique_ptr<std::byte[]> buffer_;  // has been written: its pages are there
  std::size_t used_ = 0;
};

// Keeps as many Stagings as were ever in use at once. Threads: any.
class StagingPool {
 public:
  std::unique_ptr<Staging> Take();
  void GiveBack(std::unique_ptr<Staging> staging);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Staging>> free_;  // guarded by mutex_
};

}  // namespace warpfold::cli
