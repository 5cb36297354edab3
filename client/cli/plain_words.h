// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The words of a command line, in a form in which CLI11 takes each of them literally.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace warpfold::cli {

// The words after the program's name, of a command line whose first word names one of app's commands. Values
// of flags stay as they are, as separate words. CLI11 would take a path such as "[a,b]" for a list, and "++"
// for the end of the command; and if the path is in a group of options, it would not see what comes after
// "--". Such a path is given as "./[a,b]", which is the same file, and "--" is left out.
std::vector<std::string> PlainWords(const CLI::App& app, int argc, const char* const* argv);

}  // namespace warpfold::cli
