// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that may be the mapping of a file, which another process can truncate while a call reads it.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

namespace warpfold::python {

// While one lives, a read of a page in its range that the file no longer has returns zeros, and does not end
// the process (SIGBUS): the call goes on to its end, and was_cut() says that its value is invalid. Sending
// such memory from its place is not a read: the system rejects it (EFAULT).
//
// The signal handler is installed only while a range lives, and passes on signals that are not about one.
// When the last range over the pages is destroyed, they can no longer be read, as before. Threads: any; the
// memory must outlive it.
class MappedRange {
 public:
  explicit MappedRange(std::span<const std::byte> bytes);
  ~MappedRange();
  MappedRange(const MappedRange&) = delete;
  MappedRange& operator=(const MappedRange&) = delete;

  bool was_cut() const;

  // The data that the signal handler reads.
  struct Slot;

 private:
  Slot* slot_ = nullptr;  // none for no bytes
};

}  // namespace warpfold::python
