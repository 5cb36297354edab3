// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/files.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <optional>
#include <stop_token>
#include <utility>

#include "client/cli/unpacker.h"
#include "proto/shared/steady_time.h"

namespace warpfold::cli {
namespace {

// A piece that may differ from what was written, and why; null if there is none.
struct Doubtful {
  const FilePiece* piece = nullptr;
  absl::Status why;
};

// Elements of compressed pieces, as they are requested in turn. Threads: one at a time.
class Unpacking {
 public:
  // Bytes from `offset` on. Bytes before the last ones that were requested, as after a retry, are unpacked
  // from the start again. INVALID_ARGUMENT if the member is damaged.
  absl::Status Copy(const FilePiece& piece, std::uint64_t offset, std::span<std::byte> buffer) {
    const std::uint64_t position = piece.head_bytes + offset;
    if (piece_ != &piece || unpacker_->position() > position) unpacker_.emplace(*piece.member);
    piece_ = &piece;
    if (absl::Status status = unpacker_->SkipTo(position); !status.ok()) return status;
    if (absl::Status status = unpacker_->ReadAll(buffer); !status.ok()) return status;
    return offset + buffer.size() == piece.byte_count ? unpacker_->ExpectEnd() : absl::OkStatus();
  }

 private:
  const FilePiece* piece_ = nullptr;
  std::optional<Unpacker> unpacker_;
};

// Bytes from `offset` on of all pieces, one after the other. Only compressed pieces are doubtful.
Doubtful CopyPieces(const FilesInput& files, Unpacking& unpacking, std::uint64_t offset,
                    std::span<std::byte> buffer) {
  if (buffer.empty()) return {};  // as for an array without elements, of which no piece has the first
  auto piece = files.pieces.begin();
  for (; offset >= piece->byte_count; ++piece) offset -= piece->byte_count;
  while (!buffer.empty()) {
    const std::size_t size = std::min<std::uint64_t>(piece->byte_count - offset, buffer.size());
    if (size > 0 && piece->packed()) {
      absl::Status status = unpacking.Copy(*piece, offset, buffer.first(size));
      if (!status.ok()) return {&*piece, status};
    } else if (size > 0) {
      std::memcpy(buffer.data(), piece->data.data() + offset, size);
    }
    buffer = buffer.subspan(size);
    ++piece;
    offset = 0;
  }
  return {};
}

// *damaged is the compressed piece that could not be unpacked, because of which the call was given up.
absl::StatusOr<Reduction> Send(Client& client, const Spec& spec, ElementType type, const FilesInput& files,
                               CallOptions options, Doubtful* damaged) {
  const bool packed = std::any_of(files.pieces.begin(), files.pieces.end(),
                                  [](const FilePiece& piece) { return piece.packed(); });
  if (!packed && files.pieces.size() == 1) {
    return client.ReduceBytes(spec, type, files.pieces.front().data, options);
  }
  if (packed) {
    options.streams = 1;  // which asks for the bytes in turn
    options.keep_going = [damaged, asked = std::move(options.keep_going)] {
      return damaged->piece == nullptr && (!asked || asked());
    };
  }
  std::uint64_t byte_count = 0;
  for (const FilePiece& piece : files.pieces) byte_count += piece.byte_count;
  Unpacking unpacking;
  const auto generate = [&](std::uint64_t offset, std::span<std::byte> buffer) {
    Doubtful now = damaged->piece == nullptr ? CopyPieces(files, unpacking, offset, buffer) : *damaged;
    if (now.piece == nullptr) return;
    std::memset(buffer.data(), 0, buffer.size());
    *damaged = std::move(now);
  };
  return client.ReduceGenerated(spec, type, byte_count, generate, options);
}

// Of archives with stored members.
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

Outcome ReduceFiles(Client& client, const Spec& spec, ElementType type, const FilesInput& files,
                    const CallOptions& options) {
  const absl::Time deadline = SteadyNow() + options.timeout;
  // Stored members are checked at the same time as they are sent, which reads them, too.
  std::stop_source stop;
  std::future<Doubtful> checked = std::async(std::launch::async, [&files, deadline, &stop] {
    return CheckArchives(files, deadline, stop.get_token());
  });
  Doubtful damaged;
  Outcome outcome = {.reduction = Send(client, spec, type, files, options, &damaged)};
  // The check need not go on if there is no value, for then there is nothing to take back.
  if (damaged.piece != nullptr || !outcome.reduction.ok()) stop.request_stop();
  const Doubtful stored = checked.get();
  const Doubtful& doubtful = damaged.piece != nullptr ? damaged : stored;
  for (const FilePiece& piece : files.pieces) {
    // Where there are several, they were copied, and none was lent.
    absl::Status whole = piece.file.CheckWhole(outcome.reduction.status());
    const bool is_doubtful = &piece == doubtful.piece && !absl::IsCancelled(doubtful.why);
    // A piece that seems damaged may have been written to, however the call has ended.
    if (whole.ok() && is_doubtful && absl::IsInvalidArgument(doubtful.why)) whole = piece.file.CheckWhole();
    if (whole.ok() && is_doubtful) whole = doubtful.why;
    if (!whole.ok()) return {.input_error = whole, .bad_input = piece.name};
  }
  return outcome;
}

}  // namespace warpfold::cli
