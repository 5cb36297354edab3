// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The reasons that errors carry, for programs to read. reduction.proto, segments.proto and memory.proto say
// what each means. Server, kernels and clients name them from here.
#pragma once

namespace warpfold::reason {

// Of calls.
inline constexpr char kBadMessage[] = "BAD_MESSAGE";
inline constexpr char kBadOrder[] = "BAD_ORDER";
inline constexpr char kBadHeader[] = "BAD_HEADER";
inline constexpr char kUnsupportedType[] = "UNSUPPORTED_TYPE";
inline constexpr char kEmptyArray[] = "EMPTY_ARRAY";
inline constexpr char kBadState[] = "BAD_STATE";
inline constexpr char kBadLengths[] = "BAD_LENGTHS";
inline constexpr char kTooManyLengths[] = "TOO_MANY_LENGTHS";
inline constexpr char kOverflow[] = "OVERFLOW";
inline constexpr char kUnknownMemory[] = "UNKNOWN_MEMORY";
inline constexpr char kUnknownService[] = "UNKNOWN_SERVICE";
inline constexpr char kNoCommit[] = "NO_COMMIT";
inline constexpr char kCountMismatch[] = "COUNT_MISMATCH";
inline constexpr char kChecksumMismatch[] = "CHECKSUM_MISMATCH";
inline constexpr char kTooManyReductions[] = "TOO_MANY_REDUCTIONS";
inline constexpr char kTooManyCalls[] = "TOO_MANY_CALLS";
inline constexpr char kArrayTooLarge[] = "ARRAY_TOO_LARGE";
inline constexpr char kResidentFull[] = "RESIDENT_FULL";
inline constexpr char kOwnerQuota[] = "OWNER_QUOTA";
inline constexpr char kMessageTooLarge[] = "MESSAGE_TOO_LARGE";
inline constexpr char kDeadline[] = "DEADLINE";
inline constexpr char kIdle[] = "IDLE";
inline constexpr char kRate[] = "RATE";
inline constexpr char kDuration[] = "DURATION";
inline constexpr char kNotAllowed[] = "NOT_ALLOWED";
inline constexpr char kDraining[] = "DRAINING";
inline constexpr char kDeviceLost[] = "DEVICE_LOST";
inline constexpr char kUnknownMethod[] = "UNKNOWN_METHOD";
inline constexpr char kUnknownOperator[] = "UNKNOWN_OPERATOR";
inline constexpr char kUnsupportedAlgorithm[] = "UNSUPPORTED_ALGORITHM";
inline constexpr char kNoResidentArrays[] = "NO_RESIDENT_ARRAYS";
inline constexpr char kLaunchRefused[] = "LAUNCH_REFUSED";
// All of these.
inline constexpr const char* kOfCalls[] = {
    kBadMessage,       kBadOrder,      kBadHeader,      kUnsupportedType,  kEmptyArray,
    kBadState,         kBadLengths,    kTooManyLengths, kOverflow,         kUnknownMemory,
    kUnknownService,   kNoCommit,      kCountMismatch,  kChecksumMismatch, kTooManyReductions,
    kTooManyCalls,     kArrayTooLarge, kResidentFull,   kOwnerQuota,       kMessageTooLarge,
    kDeadline,         kIdle,          kRate,           kDuration,         kNotAllowed,
    kDraining,         kDeviceLost,    kUnknownMethod,  kUnknownOperator,  kUnsupportedAlgorithm,
    kNoResidentArrays, kLaunchRefused,
};

// Of the memory socket alone.
inline constexpr char kBadMemory[] = "BAD_MEMORY";
inline constexpr char kTooMuchMemory[] = "TOO_MUCH_MEMORY";
inline constexpr char kUnsupportedMemory[] = "UNSUPPORTED_MEMORY";
inline constexpr char kNoProber[] = "NO_PROBER";

}  // namespace warpfold::reason
