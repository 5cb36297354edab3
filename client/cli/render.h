// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Results as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "client/array_reference.h"
#include "client/result.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold::cli {

// The shortest decimal that reads back as the same double, as Python's repr writes it: "0.1", "3.0", "1e+16",
// "-0.0"; "nan", "inf" and "-inf".
std::string FormatDouble(double value);

// A line per operator: "op value", "argmin value index I", "sum [[1, 2], [3, 4]]".
std::string ReductionText(const Reduction& reduction);

// One line: {"element_count":..,"device":"..","results":[{"op":"sum","value":..}]}. Integers are exact,
// non-finite doubles are strings, matrices are arrays of rows, and argmin and argmax have an "index".
std::string ReductionJson(const Reduction& reduction);

// The results of one segment, as those two: "N op value op value", {"segment":N,"results":[..]}.
std::string SegmentText(std::uint64_t segment, const std::vector<OperatorResult>& results);
std::string SegmentJson(std::uint64_t segment, const std::vector<OperatorResult>& results);

// An array that the server keeps. Its token, if it is known, is 32 hexadecimal digits.
std::string ArrayText(const ResidentArray& array);
std::string ArrayJson(const ResidentArray& array);
std::string ArraysText(const std::vector<ResidentArray>& arrays);
std::string ArraysJson(const std::vector<ResidentArray>& arrays);

std::string InfoText(const v1::GetServerInfoResponse& info);
std::string InfoJson(const v1::GetServerInfoResponse& info);

}  // namespace warpfold::cli
