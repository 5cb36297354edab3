// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Gives a connection's bytes to a watch at once and in pieces: its verdict must not depend on how they
// arrive.
#include <span>
#include <string>
#include <string_view>

#include "server/net/frame_watch.h"
#include "tests/fuzz/input.h"

namespace warpfold::server {
namespace {

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// Frames that a watch counts, many of them if the input says so, and any bytes.
std::string AnyBytes(fuzz::Input& input) {
  std::string bytes(kPreface);
  while (!input.empty() && bytes.size() < 1 << 18) {
    if (input.OneIn(8)) {
      bytes += input.Bytes(input.Below(32));
      continue;
    }
    std::string frame = {0,
                         0,
                         static_cast<char>(input.Below(16)),
                         static_cast<char>(input.Below(12)),
                         static_cast<char>(input.Below(256)),
                         0,
                         0,
                         0,
                         1};
    frame.append(static_cast<std::size_t>(frame[2]), static_cast<char>(input.Below(256)));
    for (std::uint64_t times = input.OneIn(4) ? input.Below(2048) : 1; times > 0; --times) bytes += frame;
  }
  return bytes;
}

}  // namespace
}  // namespace warpfold::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using warpfold::server::FrameWatch;
  warpfold::fuzz::Input input(data, size);
  const std::uint64_t stride = 1 + input.Below(64);
  const std::string bytes = warpfold::server::AnyBytes(input);
  const auto now = FrameWatch::Time() + std::chrono::hours(1);
  FrameWatch whole;
  whole.ServerSpeaks();
  const char* const expected = whole.Take(std::as_bytes(std::span(bytes)), now);
  FrameWatch cut;
  cut.ServerSpeaks();
  const char* complaint = nullptr;
  for (std::size_t at = 0; at < bytes.size() && complaint == nullptr; at += stride) {
    const std::string piece = bytes.substr(at, stride);
    complaint = cut.Take(std::as_bytes(std::span(piece)), now);
  }
  warpfold::fuzz::Expect(complaint == expected, "the same verdict");
  return 0;
}
