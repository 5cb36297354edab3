// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Seals memfds of other processes against holes, in processes of its own. A seal takes the kernel's lock of
// the memfd, and so does everybody who writes to it or allocates its bytes: their write may come from memory
// that never comes (FUSE, userfaultfd), and then the seal never ends either. A process that waits for that
// lock cannot even be killed (docs/adr/0128). So one process that the server starts takes the memfds, and
// seals each in a process that it forks for it, which alone may have to wait.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/memory/child_process.h"
#include "server/memory/file_descriptor.h"

namespace warpfold::server {

// What became of a memfd. Nobody can punch holes into one that is sealed any more, nor allocate bytes beyond
// its end, where they would make up for holes in a count of its blocks; and there are none. Mappings that
// clients have stay writable.
struct Sealing {
  std::optional<absl::Status> result;  // nothing yet: it goes on
  std::shared_ptr<const void> with;
};

class MemfdSealer {
 public:
  // `command` is an executable and its arguments; it must call ServeSealing. It is started by the first
  // Start, and again after it has ended.
  explicit MemfdSealer(std::vector<std::string> command) : process_(std::move(command)) {}

  // Begins to seal; TakeResults tells of the end, which the memfd's owner may hold up for ever. `with` is
  // destroyed then. UNAVAILABLE (NO_PROBER) if there is no process that does it.
  absl::StatusOr<std::shared_ptr<const Sealing>> Start(const FileDescriptor& memfd,
                                                       std::shared_ptr<const void> with);

  // Sets the results that have come; does not block. Each is OK, INVALID_ARGUMENT (BAD_MEMORY) where the
  // memfd takes no seals, or UNAVAILABLE (NO_PROBER) where the process has ended.
  void TakeResults();

  // Becomes readable when there are results to take; -1 where none can come.
  int fd() const { return process_.socket().get(); }

 private:
  void Forget();

  ChildProcess process_;
  std::uint64_t last_number_ = 0;
  std::unordered_map<std::uint64_t, std::shared_ptr<Sealing>> in_progress_;
};

// What the process does: seals memfds, which come by standard input, with `seal`, until nobody asks any more.
// `seal` returns 0, or an errno. Returns the exit code.
int ServeSealing(const std::function<int(int memfd)>& seal);

// What `seal` is, but in tests.
int SealAgainstHoles(int memfd);

}  // namespace warpfold::server
