// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Options that several commands have, and checks of their text. By CLI11's convention a check returns an
// empty string for success, otherwise what is wrong.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "client/array.h"

namespace warpfold::cli {

// Element types, by NumPy's names.
CLI::Validator TypeValidator();

// Operators, separated by commas.
CLI::Validator OperatorsValidator();

// A whole number of 0 or more that fits in 64 bits. (CLI11 alone would read "-1", and every number that is
// too large, as the largest number.) `name` is the name of the value in the help.
CLI::Validator UnsignedValidator(const std::string& name);

// The same of 1 or more.
CLI::Validator PositiveValidator(const std::string& name);

// A whole number, perhaps negative, that fits in 64 bits with a sign. (CLI11 alone would read an empty text
// as a missing value.)
CLI::Validator IntegerValidator();

// A number. (CLI11 alone would accept nan in every range, and read an empty text as 0.)
CLI::Validator NumberValidator();

// A time above 0.
CLI::Validator SecondsValidator();

// A token of an array that the server keeps: 32 hexadecimal digits.
CLI::Validator TokenValidator();

// ROWSxCOLUMNS, such as 4x4.
CLI::Validator MatrixShapeValidator();
std::optional<MatrixShape> ParseMatrixShape(const std::string& text);

// Adds --dtype, which sets *type.
CLI::Option* AddDtype(CLI::App& app, std::optional<ElementType>* type, const std::string& help);

}  // namespace warpfold::cli
