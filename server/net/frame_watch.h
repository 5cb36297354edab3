// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads the nine-byte heads of the HTTP/2 frames that a client sends, and reports patterns that no client of
// a gRPC service has reason to send: headers without an end or with very many fields, floods of resets,
// floods of empty frames, and calls from a client that has not acknowledged the server's settings, which
// limit how many calls it may have at once. It also counts frames of a few bytes. gRPC 1.51 has no limits on
// these (docs/adr/0045).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "server/net/allowance.h"
#include "server/net/frame_heads.h"
#include "server/net/header_fields.h"

namespace warpfold::server {

// Threads: one at a time.
class FrameWatch {
 public:
  using Time = Allowance::Time;

  // The service announces that it accepts 8 KiB of headers for each call (gRPC's default), and clients keep
  // to that. A block of one frame may have more, so that gRPC itself rejects it, with a status. gRPC holds
  // each frame to its limit, but not the block: one of several frames has kMaxContinuedBytes, and trailers,
  // of which gRPC's clients send none, have kMaxTrailerBytes. Each frame counts kFrameCost beside its length.
  static constexpr std::uint64_t kMaxHeaderBytes = 64 << 10;
  static constexpr std::uint64_t kMaxContinuedBytes = 10 << 10;
  static constexpr std::uint64_t kMaxTrailerBytes = 1 << 10;
  static constexpr std::uint64_t kFrameCost = 64;
  // The maximum number of header fields of a call, and of its trailers. gRPC takes some 200 bytes for each
  // beside its text, so that 8 KiB of the shortest fields would be 45 KiB (docs/adr/0107).
  static constexpr int kMaxFields = 64;
  static constexpr int kMaxTrailers = 8;
  // Calls that the client may cancel: at once, and in each second after that.
  static constexpr double kMaxResets = 1000;
  static constexpr double kResetsPerSecond = 500;
  // Frames that belong to no call: settings, pings, data frames without data, and ends of calls (their last
  // data, or trailers) beyond one for each call. gRPC reads what does not use up its windows for as long as
  // it comes, and serves nobody else on that thread meanwhile. For each frame that begins a call, continues
  // its headers, carries data or is its end, kFreeFrames of them are free; trailers make none free.
  static constexpr double kMaxIdleFrames = 1000;
  static constexpr double kIdleFramesPerSecond = 100;
  static constexpr int kFreeFrames = 4;
  // Calls whose end may still come: no client may have more at once (kMaxEarlyCalls, and then those that the
  // server's settings announce). Calls that the server ended, or the client took back, would else save up
  // ends.
  static constexpr int kMaxCallsWithoutEnd = 100;
  // Data frames of fewer bytes. gRPC keeps some 44 bytes beside those of each frame, which no quota counts,
  // until the message that they are part of is complete and taken. Small messages have small frames, too: a
  // number of them are free for each call, and so are its last one, and one for each larger frame. The others
  // are counted. For larger frames, what gRPC keeps beside them is at most a third of what they carry, and no
  // call has more of that than its window; chunks of a few hundred bytes may come as fast as they can.
  static constexpr std::uint32_t kSmallFrame = 128;
  static constexpr int kFreeSmallFrames = 2;
  // Window updates. A client that reads results sends one for some tens of KiB; gRPC keeps no memory for
  // them.
  static constexpr double kMaxWindows = 100'000;
  static constexpr double kWindowsPerSecond = 100'000;

  // What may come before the settings are acknowledged, which clients do as soon as they have read them: this
  // many calls, with this many fields and bytes of headers in total, within this time from the first of them
  // on. Some clients read nothing before they call, and assume a limit of 100 until then (RFC 9113, 6.5.2).
  static constexpr int kMaxEarlyCalls = 100;
  static constexpr int kMaxEarlyFields = 20 * kMaxEarlyCalls;
  static constexpr std::uint64_t kMaxEarlyBytes = 128 << 10;
  static constexpr auto kSettingsTimeout = std::chrono::seconds(10);

  // Call this once the server has begun to send its settings, before the client can have read them.
  void ServerSpeaks() { server_speaks_ = true; }

  // Takes the bytes that came next. Returns null, or what is wrong with them; then the connection should be
  // closed.
  const char* Take(std::span<const std::byte> bytes, Time now);

  // How many calls were begun, and were cancelled, so far.
  std::uint64_t calls() const { return call_count_; }
  std::uint64_t resets() const { return reset_count_; }
  // How many small frames that are not free have come so far.
  std::uint64_t small_frames() const { return small_frame_count_; }

 private:
  const char* TakeHead(const FrameHead& head, Time now);
  const char* TakeHeaders(const FrameHead& head, Time now);
  const char* TakeHeaderBytes(std::uint32_t length, std::uint64_t most);
  const char* TakeFields(std::span<const std::byte> bytes);
  const char* TakeCall(Time now);
  const char* TakeIdle(Time now);
  void CountData(const FrameHead& head);
  void BeginCall(const FrameHead& head);
  // Whether a call can end now: each does so once.
  bool TakeEnd();

  FrameHeads heads_{24};  // after the connection's preface
  std::uint64_t header_bytes_ = 0;
  HeaderFields fields_;
  bool in_trailers_ = false;
  bool in_headers_ = false;  // what comes is part of a header block
  int free_frames_ = 0;
  int free_small_frames_ = 0;
  int calls_without_end_ = 0;  // whose client's side has not ended
  bool server_speaks_ = false;
  bool acknowledged_ = false;  // the server's settings
  int early_calls_ = 0;
  int early_fields_ = 0;
  std::uint64_t early_bytes_ = 0;
  Time first_call_;
  std::uint32_t last_call_ = 0;  // its stream
  std::uint64_t call_count_ = 0;
  std::uint64_t reset_count_ = 0;
  std::uint64_t small_frame_count_ = 0;
  Allowance resets_{kMaxResets, kResetsPerSecond};
  Allowance idle_frames_{kMaxIdleFrames, kIdleFramesPerSecond};
  Allowance windows_{kMaxWindows, kWindowsPerSecond};
};

}  // namespace warpfold::server
