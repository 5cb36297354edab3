// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/memory/handle_prober.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include "kernels/error.h"
#include "proto/error_reasons.h"

namespace warpfold::server {
namespace {

constexpr std::size_t kMaxKnown = 1024;
// How often to check whether a process that was killed has ended.
constexpr absl::Duration kLookForEnd = absl::Milliseconds(20);

// An answer: the code of the status, then its message, as far as it fits.
struct Answer {
  std::int32_t code;
  std::array<char, 508> message;
};

// The process sends this before its first answer, to say that it has started.
constexpr char kBegun = 1;

absl::Status BadHandle(absl::string_view what) {
  return kernels::Error(absl::StatusCode::kInvalidArgument, reason::kBadMemory, what, {{"field", "handle"}});
}

absl::Status StatusOf(const Answer& answer) {
  // Its last byte is a zero.
  const absl::string_view message = answer.message.data();
  const auto code = static_cast<absl::StatusCode>(answer.code);
  if (code == absl::StatusCode::kOk) return absl::OkStatus();
  if (code == absl::StatusCode::kInvalidArgument) return BadHandle(message);
  return absl::Status(code, message);
}

}  // namespace

// Even an idle process may hang when it ends: the driver is involved.
HandleProber::~HandleProber() { process_.Abandon(); }

std::shared_ptr<const Probing> HandleProber::Start(const kernels::ProcessMemory& memory, uid_t user,
                                                   absl::Time now) {
  auto probing = std::make_shared<Probing>(Probing{.memory = memory, .user = user});
  if (IsKnown(memory)) {
    probing->result = absl::OkStatus();
    return probing;
  }
  waiting_.push_back(probing);
  Advance(now);
  return probing;
}

void HandleProber::Advance(absl::Time now) {
  if (asked_ != nullptr) TakeAnswer(now);
  if (is_ending_) is_ending_ = process_.IsRunning();
  if (!is_ending_) return AskNext(now);
  if (now < deadline_) return;
  // Not even SIGKILL has ended it: the driver may hang.
  if (again_ != nullptr) waiting_.push_back(std::exchange(again_, nullptr));
  for (const auto& probing : waiting_) probing->result = NoProber("the process that did it does not end");
  waiting_.clear();
}

void HandleProber::TakeAnswer(absl::Time now) {
  Answer answer = {};
  const ssize_t size = recv(process_.socket().get(), &answer, sizeof(answer), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
    if (now < deadline_) return;
    std::exchange(asked_, nullptr)->result = has_begun_
                                                 ? BadHandle("reading the memory of the handle does not end")
                                                 : NoProber("the process that does it does not start");
    return EndProcess(now);
  }
  if (size == sizeof(kBegun)) {
    has_begun_ = true;
    return TakeAnswer(now);
  }
  if (size != sizeof(answer)) {
    return AskAgainOrRefuse(has_begun_
                                ? BadHandle("reading the memory of the handle ends the process that does it")
                                : NoProber("the process that does it cannot start"),
                            now);
  }
  answer.message.back() = '\0';
  absl::Status status = StatusOf(answer);
  if (absl::IsUnavailable(status)) return AskAgainOrRefuse(BadHandle(status.message()), now);
  const std::shared_ptr<Probing> probing = std::exchange(asked_, nullptr);
  if (status.ok()) {
    known_.push_back(probing->memory);
    if (known_.size() > kMaxKnown) known_.pop_front();
  }
  probing->result = std::move(status);
}

void HandleProber::AskAgainOrRefuse(absl::Status refusal, absl::Time now) {
  std::shared_ptr<Probing> probing = std::exchange(asked_, nullptr);
  if (is_first_) {
    probing->result = std::move(refusal);
  } else {
    again_ = std::move(probing);
  }
  EndProcess(now);
}

void HandleProber::EndProcess(absl::Time now) {
  process_.Kill();
  is_ending_ = true;
  deadline_ = now + patience_;
}

void HandleProber::AskNext(absl::Time now) {
  while (asked_ == nullptr && !is_ending_) {
    const auto is_unwanted = [](const std::shared_ptr<Probing>& probing) { return probing.use_count() == 1; };
    waiting_.remove_if(is_unwanted);
    if (again_ != nullptr && is_unwanted(again_)) again_ = nullptr;
    if (again_ != nullptr) {
      Ask(std::exchange(again_, nullptr), now);
      continue;
    }
    const auto next = std::min_element(
        waiting_.begin(), waiting_.end(),
        [this](const auto& a, const auto& b) { return turns_.LastOf(a->user) < turns_.LastOf(b->user); });
    if (next == waiting_.end()) return;
    std::shared_ptr<Probing> probing = std::move(*next);
    waiting_.erase(next);
    turns_.Take(probing->user);
    if (IsKnown(probing->memory)) {
      probing->result = absl::OkStatus();
    } else {
      Ask(std::move(probing), now);
    }
  }
}

void HandleProber::Ask(std::shared_ptr<Probing> probing, absl::Time now) {
  is_first_ = !process_.IsRunning();
  if (is_first_) {
    if (absl::Status status = process_.Start(); !status.ok()) {
      probing->result = std::move(status);
      return;
    }
    has_begun_ = false;
  }
  asked_ = std::move(probing);
  deadline_ = now + patience_;
  const kernels::ProcessMemory& memory = asked_->memory;
  if (send(process_.socket().get(), &memory, sizeof(memory), MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(memory)) {
    AskAgainOrRefuse(NoProber("the process that does it has ended before it was asked"), now);
  }
}

absl::Time HandleProber::deadline(absl::Time now) const {
  if (asked_ != nullptr) return deadline_;
  return is_ending_ ? now + kLookForEnd : absl::InfiniteFuture();
}

void HandleProber::Watch(std::vector<pollfd>* watched) const {
  if (asked_ == nullptr) return;
  watched->push_back({.fd = process_.socket().get(), .events = POLLIN, .revents = 0});
}

bool HandleProber::IsKnown(const kernels::ProcessMemory& memory) const {
  return std::any_of(known_.begin(), known_.end(), [&](const kernels::ProcessMemory& known) {
    // If the memory begins before the known range, the difference wraps around and exceeds any count.
    const std::uint64_t skipped = memory.byte_offset - known.byte_offset;
    return known.handle == memory.handle && known.pci_bus_id == memory.pci_bus_id &&
           skipped <= known.byte_count && memory.byte_count <= known.byte_count - skipped;
  });
}

int ServeProbes(const std::function<absl::Status(const kernels::ProcessMemory&)>& probe) {
  EndWithParent();
  if (send(STDIN_FILENO, &kBegun, sizeof(kBegun), MSG_NOSIGNAL) != sizeof(kBegun)) return 1;
  kernels::ProcessMemory memory;
  while (recv(STDIN_FILENO, &memory, sizeof(memory), 0) == sizeof(memory)) {
    const absl::Status status = probe(memory);
    Answer answer = {.code = static_cast<std::int32_t>(status.code()), .message = {}};
    status.message().copy(answer.message.data(), answer.message.size() - 1);
    if (send(STDIN_FILENO, &answer, sizeof(answer), MSG_NOSIGNAL) != sizeof(answer)) return 1;
  }
  return 0;
}

}  // namespace warpfold::server
