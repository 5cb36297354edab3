// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/files/file_watch.h"

#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace warpfold::server {
namespace {

constexpr absl::Duration kCheckInterval = absl::Seconds(1);

}  // namespace

FileWatch::FileWatch(std::vector<std::string> paths) : paths_(std::move(paths)), seen_(Signature()) {}

bool FileWatch::HasChanged(absl::Time now) {
  if (now < next_check_) return false;
  next_check_ = now + kCheckInterval;
  std::string signature = Signature();
  if (signature == seen_) return false;
  seen_ = std::move(signature);
  return true;
}

std::string FileWatch::Signature() const {
  std::string signature;
  for (const std::string& path : paths_) {
    struct stat info = {};
    if (path.empty() || stat(path.c_str(), &info) != 0) info = {};
    absl::StrAppend(&signature, info.st_dev, " ", info.st_ino, " ", info.st_size, " ", info.st_mtim.tv_sec,
                    " ", info.st_mtim.tv_nsec, " ", info.st_ctim.tv_sec, " ", info.st_ctim.tv_nsec, "\n");
  }
  return signature;
}

}  // namespace warpfold::server
