// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/job_queue.h"

#include <algorithm>
#include <utility>

namespace warpfold::kernels::cpu {

void JobQueue::Add(std::uint64_t group, Job job) {
  if (groups_.size() >= kMaxGroups) {
    std::erase_if(groups_, [](const auto& entry) { return IsIdle(entry.second); });
  }
  Group& own = groups_[group];
  if (own.waiting.empty()) own.tag = std::max(own.tag, start_);
  own.waiting.push_back({.job = std::move(job)});
  ++waiting_;
}

JobQueue::Batch JobQueue::Pick() {
  const Groups::iterator next = NextGroup();
  Group& group = next->second;
  start_ = std::max(start_, group.tag);
  const Jobs::iterator open = group.waiting.begin();
  const std::size_t size = BatchSize(*open);
  Batch batch = {.group = next, .job = open, .begin = open->next, .end = open->next + size};
  if (open->job.task_time > Time::zero()) {
    batch.expected = open->job.task_time * static_cast<Time::rep>(size);
  }
  group.tag += batch.expected;
  ++running_;
  open->next += size;
  open->running += size;
  if (open->next < open->job.tasks) {
    group.waiting.splice(group.waiting.end(), group.waiting, open);
  } else {
    group.running.splice(group.running.end(), group.waiting, open);
    --waiting_;
  }
  return batch;
}

std::function<void()> JobQueue::End(const Batch& batch, Time took) {
  const std::size_t tasks = batch.end - batch.begin;
  Group& group = batch.group->second;
  OpenJob& open = *batch.job;
  group.tag += took - batch.expected;
  open.job.task_time = std::max(took / static_cast<Time::rep>(tasks), Time(1));
  open.running -= tasks;
  --running_;
  if (open.running > 0 || open.next < open.job.tasks) return {};
  std::function<void()> on_end = std::move(open.job.on_end);
  group.running.erase(batch.job);
  if (waiting_ == 0 && running_ == 0) groups_.clear();
  return on_end;
}

// The group with the lowest tag among those with tasks. Groups without jobs are forgotten once the groups
// with jobs have caught up with them.
JobQueue::Groups::iterator JobQueue::NextGroup() {
  Groups::iterator next = groups_.end();
  for (auto group = groups_.begin(); group != groups_.end();) {
    const Group& other = group->second;
    if (other.waiting.empty()) {
      const bool is_past = IsIdle(other) && other.tag <= start_;
      group = is_past ? groups_.erase(group) : std::next(group);
      continue;
    }
    if (next == groups_.end() || other.tag < next->second.tag) next = group;
    ++group;
  }
  return next;
}

std::size_t JobQueue::BatchSize(const OpenJob& job) const {
  const std::size_t left = job.job.tasks - job.next;
  if (job.job.task_time <= Time::zero()) return 1;
  const std::size_t share = (job.job.tasks + threads_ - 1) / threads_;
  const auto in_a_turn = static_cast<std::size_t>(kTurn / job.job.task_time);
  return std::min(left, std::clamp<std::size_t>(in_a_turn, 1, share));
}

}  // namespace warpfold::kernels::cpu
