// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/files.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <stop_token>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "client/cli/unpacker.h"

namespace warpfold::cli {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20;

using Bytes = std::span<const std::byte>;

// Bytes from `offset` on of all pieces, one behind the other.
void CopyPieces(const FilesInput& files, std::uint64_t offset, std::span<std::byte> buffer) {
  if (buffer.empty()) return;  // as of an array of no elements, of which no piece has the first
  auto piece = files.pieces.begin();
  for (; offset >= piece->data.size(); ++piece) offset -= piece->data.size();
  while (!buffer.empty()) {
    const Bytes rest = piece->data.subspan(offset);
    const std::size_t size = std::min(rest.size(), buffer.size());
    if (size > 0) std::memcpy(buffer.data(), rest.data(), size);
    buffer = buffer.subspan(size);
    ++piece;
    offset = 0;
  }
}

absl::StatusOr<Reduction> SendMapped(Client& client, const Spec& spec, ElementType type,
                                     const FilesInput& files, const CallOptions& options) {
  if (files.pieces.size() == 1) return client.ReduceBytes(spec, type, files.pieces.front().data, options);
  std::uint64_t byte_count = 0;
  for (const FilePiece& piece : files.pieces) byte_count += piece.byte_count;
  const auto generate = [&files](std::uint64_t offset, std::span<std::byte> buffer) {
    CopyPieces(files, offset, buffer);
  };
  return client.ReduceGenerated(spec, type, byte_count, generate, options);
}

// Unpacks a member into the array. Its end must be where its header says, with the archive's checksum.
Outcome Unpack(FilePiece& piece, Writer& writer) {
  std::vector<std::byte> buffer(kReadBytes);
  Unpacker unpacker(*piece.member);
  while (true) {
    const std::uint64_t head_left = piece.head_bytes - std::min(piece.head_bytes, unpacker.position());
    const std::uint64_t wanted = head_left > 0 ? std::min<std::uint64_t>(head_left, kReadBytes) : kReadBytes;
    const absl::StatusOr<std::size_t> size = unpacker.Read(std::span(buffer).first(wanted));
    if (!size.ok()) return {.input_error = size.status(), .bad_input = piece.name};
    if (*size == 0) return {.reduction = Reduction{}};
    if (head_left > 0) continue;
    if (absl::Status status = writer.Write(std::span(buffer).first(*size)); !status.ok()) {
      return {.reduction = status};
    }
  }
}

Outcome SendInTurn(Client& client, const Spec& spec, ElementType type, FilesInput& files,
                   const CallOptions& options) {
  absl::StatusOr<Writer> writer = client.OpenWriter(spec, type, options);
  if (!writer.ok()) return {.reduction = writer.status()};
  for (FilePiece& piece : files.pieces) {
    if (piece.packed()) {
      Outcome outcome = Unpack(piece, *writer);
      if (!outcome.input_error.ok() || !outcome.reduction.ok()) return outcome;
    }
    for (Bytes rest = piece.data; !rest.empty(); rest = rest.subspan(std::min(rest.size(), kReadBytes))) {
      absl::Status status = writer->Write(rest.first(std::min(rest.size(), kReadBytes)));
      if (!status.ok()) return {.reduction = status};
    }
  }
  return {.reduction = writer->Commit()};
}

// The first archive whose stored member is not known to be what was written, and why; null if all are.
struct Doubtful {
  const FilePiece* piece = nullptr;
  absl::Status why;
};

Doubtful CheckArchives(const FilesInput& files, absl::Time deadline, const std::stop_token& stop) {
  for (const FilePiece& piece : files.pieces) {
    if (!piece.member.has_value() || piece.packed()) continue;
    if (absl::Status status = piece.member->CheckStored(deadline, stop); !status.ok()) {
      return {&piece, status};
    }
  }
  return {};
}

}  // namespace

Outcome ReduceFiles(Client& client, const Spec& spec, ElementType type, FilesInput& files,
                    const CallOptions& options) {
  const bool packed = std::any_of(files.pieces.begin(), files.pieces.end(),
                                  [](const FilePiece& piece) { return piece.packed(); });
  const absl::Time deadline = absl::Now() + options.timeout;
  // Stored members are checked beside the sending, which reads them, too.
  std::stop_source stop;
  std::future<Doubtful> checked = std::async(std::launch::async, [&files, deadline, &stop] {
    return CheckArchives(files, deadline, stop.get_token());
  });
  Outcome outcome = packed ? SendInTurn(client, spec, type, files, options)
                           : Outcome{.reduction = SendMapped(client, spec, type, files, options)};
  // The check need not go on if there is no value, for then there is nothing to take back.
  if (!outcome.input_error.ok() || !outcome.reduction.ok()) stop.request_stop();
  const Doubtful doubtful = checked.get();
  for (const FilePiece& piece : files.pieces) {
    absl::Status whole = piece.file.CheckWhole();
    if (whole.ok() && &piece == doubtful.piece && !absl::IsCancelled(doubtful.why)) whole = doubtful.why;
    if (!whole.ok()) return {.input_error = whole, .bad_input = piece.name};
  }
  return outcome;
}

}  // namespace warpfold::cli
