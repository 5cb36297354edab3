// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/files/allow_file.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/log/logging.h"
#include "server/process/process.h"

namespace warpfold::server {

AllowFile::AllowFile(const std::string& path, Access& access)
    : path_(path), access_(access), watch_({path}) {}

absl::Status AllowFile::Load() {
  if (path_.empty()) return absl::OkStatus();
  const absl::StatusOr<std::string> text = ReadFile(path_);
  if (!text.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--allow: the file cannot be read: ", text.status().message()));
  }
  absl::StatusOr<AllowList> list = AllowList::Parse(*text);
  if (!list.ok()) return absl::InvalidArgumentError(absl::StrCat("--allow: ", list.status().message()));
  if (!list->literal_asterisk().empty()) {
    Log(LogLevel::kWarning,
        absl::StrCat("--allow: ", list->literal_asterisk(),
                     " is for the certificate that has this very name: within an identity "
                     "an asterisk stands for nothing else"));
  }
  access_.SetList(*std::move(list));
  reloads_.Succeeded();
  return absl::OkStatus();
}

void AllowFile::ReloadIfChanged(absl::Time now) {
  if (path_.empty() || !watch_.HasChanged(now)) return;
  const absl::Status status = Load();
  const std::string before = std::exchange(refusal_, std::string(status.message()));
  if (status.ok()) return Log(LogLevel::kInfo, "--allow: a new list is in force");
  reloads_.Failed();
  watch_.TryAgain();
  if (refusal_ == before) return;
  Log(LogLevel::kWarning, absl::StrCat("a new list is refused, the old one stays: ", refusal_));
}

}  // namespace warpfold::server
