// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The metadata of calls that clients and servers of this protocol read; reduction.proto says what they mean.
#pragma once

namespace warpfold::metadata {

// The client's name for the array of which a call reduces a part.
inline constexpr char kArray[] = "warpfold-array";

// With this value, the client waits for the server's initial metadata before it sends the array.
inline constexpr char kExpect[] = "warpfold-expect";
inline constexpr char kAdmission[] = "admission";
// A server that has admitted such a call says so in those metadata.
inline constexpr char kAdmitted[] = "warpfold-admitted";
inline constexpr char kYes[] = "yes";

}  // namespace warpfold::metadata
