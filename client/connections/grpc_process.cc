// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/connections/grpc_process.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace warpfold {
namespace {

// The second of two threads that wait for the same mutex needs the frequency.
void WaitBesideAnotherThread() {
  absl::Mutex mutex;
  bool other_waits = false;
  bool done = false;
  std::thread other([&] {
    absl::MutexLock lock(&mutex);
    other_waits = true;
    mutex.Await(absl::Condition(&done));
  });
  {
    absl::MutexLock lock(&mutex);
    mutex.Await(absl::Condition(&other_waits));
    // A time that is gone whatever somebody sets the clock to.
    mutex.AwaitWithDeadline(absl::Condition(&done), absl::UnixEpoch());
    done = true;
  }
  other.join();
}

// Whether the system gives this process so many at once.
bool HasDescriptors(int count) {
  std::vector<int> given;
  while (static_cast<int>(given.size()) < count) {
    const int descriptor = eventfd(0, EFD_CLOEXEC);
    if (descriptor < 0) break;
    given.push_back(descriptor);
  }
  for (const int descriptor : given) close(descriptor);
  return static_cast<int>(given.size()) == count;
}

}  // namespace

absl::Status KeepGrpcRunning() {
  static std::atomic<bool> runs = false;
  if (!runs && !HasDescriptors(kGrpcDescriptors)) {
    return absl::ResourceExhaustedError(
        "gRPC cannot start: this process has no file descriptor left, or too few");
  }
  // A channel that is never used and never given back: it keeps everything that the other ones share. The
  // pointer stays in the program so that leak checkers see it.
  [[gnu::used]] static const auto* const kept = new std::shared_ptr<grpc::Channel>(
      grpc::CreateChannel("unix:/unused", grpc::InsecureChannelCredentials()));
  runs = true;
  return absl::OkStatus();
}

void LookUpCpuFrequency() {
  try {
    [[maybe_unused]] static const bool done = [] {
      WaitBesideAnotherThread();
      return true;
    }();
  } catch (const std::system_error&) {
    // The system has no thread now: the next call tries again.
  }
}

}  // namespace warpfold
