// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The version that the build gave us.
#pragma once

namespace warpfold::server {

inline constexpr char kVersion[] = WARPFOLD_VERSION;

}  // namespace warpfold::server
