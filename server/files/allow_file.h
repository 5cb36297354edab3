// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The allow list that --allow names, and its changes while the server runs.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/core/admission/allow_list.h"
#include "server/files/file_watch.h"
#include "server/files/reload.h"

namespace warpfold::server {

// Threads: one at a time, except for functions that say otherwise.
class AllowFile {
 public:
  // `access` must outlive this. With an empty `path` there is no list.
  AllowFile(const std::string& path, Access& access);

  // Puts the list into force. INVALID_ARGUMENT with the flag and what is wrong with the file.
  absl::Status Load();

  // Call this often: a new list is put into force. A bad one is rejected with a line in the log, and the old
  // one stays.
  void ReloadIfChanged(absl::Time now);

  // The outcome of the last reload. From any thread.
  Reload last_reload() const { return reloads_.Last("allow"); }

 private:
  const std::string path_;
  Access& access_;
  FileWatch watch_;
  ReloadRecord reloads_;
  std::string refusal_;  // of the last attempt; empty if there was none
};

}  // namespace warpfold::server
