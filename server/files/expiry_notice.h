// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Says that something is about to expire: a week before, a day before, and when it has.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace warpfold::server {

// Threads: one at a time.
class ExpiryNotice {
 public:
  // Something else is in use from now on; nothing if `expiry` is absent. `what` begins the notices:
  // "--tls_cert: the certificate".
  void Watch(std::optional<absl::Time> expiry, std::string what) {
    what_ = std::move(what);
    expiry_ = expiry;
    told_ = kNothing;
  }

  // The notice to log at `now`; empty if it was logged before, or if there is still time. `date` is that of
  // the expiry.
  std::string Due(absl::Time now, std::string (*date)(absl::Time)) {
    if (!expiry_.has_value()) return "";
    const Stage stage = *expiry_ <= now                         ? kExpired
                        : *expiry_ <= now + absl::Hours(24)     ? kDay
                        : *expiry_ <= now + absl::Hours(24 * 7) ? kWeek
                                                                : kNothing;
    if (stage <= std::exchange(told_, std::max(told_, stage))) return "";
    return absl::StrCat(what_, stage == kExpired ? " expired on " : " expires on ", date(*expiry_));
  }

 private:
  enum Stage { kNothing, kWeek, kDay, kExpired };

  std::string what_;
  std::optional<absl::Time> expiry_;
  Stage told_ = kNothing;
};

}  // namespace warpfold::server
