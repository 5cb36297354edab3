// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that may be a file's mapping, of which another process can cut pages off while a call reads it.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

namespace warpfold::python {

// While one lives, a read of a page in its range that the file no longer has finds zeros, and does not end
// the process (SIGBUS): the call goes on to its end, and was_cut() says that its value is none. Sending such
// memory from its place is no read: the system refuses it (EFAULT).
//
// The signal's handler is there only while a range is, and passes on what is not about one. When the last
// range over the pages goes, they can be read no more, as before. Threads: any; the memory must outlive it.
class MappedRange {
 public:
  explicit MappedRange(std::span<const std::byte> bytes);
  ~MappedRange();
  MappedRange(const MappedRange&) = delete;
  MappedRange& operator=(const MappedRange&) = delete;

  bool was_cut() const;

  // What the signal's handler looks at.
  struct Slot;

 private:
  Slot* slot_ = nullptr;  // none where all are taken: the range is then as unprotected as any memory
};

}  // namespace warpfold::python
