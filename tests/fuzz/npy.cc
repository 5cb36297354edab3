// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as an .npy file, read whole and piece by piece: both ways read the same array, or none.
#include "client/cli/npy.h"

#include <string>

#include "client/calls/translate.h"
#include "tests/fuzz/input.h"

namespace warpfold::cli {
namespace {

using fuzz::Expect;

void Check(const std::string& file) {
  const auto bytes = std::as_bytes(std::span(file));
  const auto whole = ParseNpy(bytes);
  if (!IsNpy(bytes)) return Expect(!whole.ok(), "no .npy file");
  std::size_t at = kNpyMagic.size();
  const auto head = ReadNpyHead([&](std::size_t size) -> absl::StatusOr<std::string> {
    const std::string piece = file.substr(at, size);
    at += piece.size();
    return piece;
  });
  const bool fits = head.ok() && CheckNpyData(head->data_bytes, file.size() - at).ok();
  Expect(whole.ok() == fits, "both ways agree");
  if (!fits) return;
  std::uint64_t data_bytes = ElementBytes({}, whole->type);
  for (const std::uint64_t length : whole->shape) data_bytes *= length;
  Expect(whole->data.size() == data_bytes, "as many bytes as the shape says");
  Expect(head->shape == whole->shape && head->type == whole->type && head->data_bytes == data_bytes,
         "the same array");
}

}  // namespace
}  // namespace warpfold::cli

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  warpfold::fuzz::Input input(data, size);
  // The file's first bytes are given: a fuzzer need not find them.
  const bool is_npy = !input.OneIn(16);
  warpfold::cli::Check((is_npy ? std::string(warpfold::cli::kNpyMagic) : "") + input.Rest());
  return 0;
}
