// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/connections/channel_keeper.h"

#include <chrono>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/connections/queue_pool.h"
#include "proto/shared/steady_time.h"

namespace warpfold {
namespace {

// Longer than connecting may take (connection.cc).
constexpr auto kLongest = std::chrono::milliseconds(3500);
constexpr absl::Duration kLookedAtEvery = absl::Milliseconds(100);

using Clock = std::chrono::steady_clock;  // which nobody can set

bool Connects(grpc::Channel& channel) {
  return channel.GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_CONNECTING;
}

// Threads: any.
class Keeper {
 public:
  void Keep(std::shared_ptr<grpc::Channel> channel) {
    absl::MutexLock lock(&mutex_);
    if (!is_running_) {
      try {
        std::thread([this] { Run(); }).detach();
      } catch (const std::system_error&) {
        return;  // the system has no more threads: the socket may be lost
      }
      is_running_ = true;
    }
    given_up_.push_back({std::move(channel), Clock::now() + kLongest});
  }

  std::size_t count() const {
    absl::MutexLock lock(&mutex_);
    return given_up_.size() + watched_;
  }

 private:
  struct Kept {
    std::shared_ptr<grpc::Channel> channel;
    Clock::time_point until;
  };

  // Runs until there are none.
  void Run() {
    grpc::CompletionQueue queue;
    std::vector<Kept> kept;
    while (TakeNew(kept)) {
      // gRPC goes on connecting only while a thread waits for a change of the channel.
      const absl::Time next = SteadyNow() + kLookedAtEvery;
      for (const Kept& each : kept) {
        each.channel->NotifyOnStateChange(GRPC_CHANNEL_CONNECTING, ToSystemTime(next), &queue, nullptr);
      }
      for (std::size_t left = kept.size(); left > 0;) {
        void* tag = nullptr;
        bool ok = false;
        if (AwaitEvent(queue, &tag, &ok, absl::InfiniteFuture()) == Waited::kEvent) --left;
      }
      const Clock::time_point now = Clock::now();
      std::erase_if(kept, [now](const Kept& each) { return now >= each.until || !Connects(*each.channel); });
    }
    queue.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue.Next(&tag, &ok)) continue;
  }

  // Whether there are any; if not, the thread ends.
  bool TakeNew(std::vector<Kept>& kept) {
    absl::MutexLock lock(&mutex_);
    for (Kept& each : given_up_) kept.push_back(std::move(each));
    given_up_.clear();
    watched_ = kept.size();
    is_running_ = !kept.empty();
    return is_running_;
  }

  mutable absl::Mutex mutex_;
  bool is_running_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Kept> given_up_ ABSL_GUARDED_BY(mutex_);  // those that the thread has not taken yet
  std::size_t watched_ ABSL_GUARDED_BY(mutex_) = 0;     // those that it has taken
};

// Never destroyed: its thread may live until the process ends.
Keeper& TheKeeper() {
  static Keeper& keeper = *new Keeper();
  return keeper;
}

}  // namespace

void GiveUp(std::shared_ptr<grpc::Channel> channel) {
  if (Connects(*channel)) TheKeeper().Keep(std::move(channel));
}

std::size_t ChannelsGivenUp() { return TheKeeper().count(); }

}  // namespace warpfold
