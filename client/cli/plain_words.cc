// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/plain_words.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace warpfold::cli {
namespace {

// Null if there is no such command.
const CLI::App* FindCommand(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

bool TakesValue(const CLI::App& command, const std::string& name) {
  if (!absl::StartsWith(name, "-")) return false;
  const CLI::Option* const option = command.get_option_no_throw(name);
  return option != nullptr && option->get_items_expected_min() > 0;
}

bool IsMistaken(const std::string& path) {
  return path == "++" || (absl::StartsWith(path, "[") && absl::EndsWith(path, "]"));
}

}  // namespace

std::vector<std::string> PlainWords(const CLI::App& app, int argc, const char* const* argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const CLI::App* const command = words.empty() ? nullptr : FindCommand(app, words.front());
  if (command == nullptr) return words;
  std::vector<std::string> plain = {words.front()};
  bool only_paths = false;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::string name = word.substr(0, word.find('='));
    const bool is_dashed = absl::StartsWith(word, "-") && word != "-";  // "-" is standard input
    if (!only_paths && word == "--") {
      only_paths = true;
    } else if (!only_paths && TakesValue(*command, name)) {
      plain.push_back(name);
      // CLI11 takes the word that follows "--name=" as its value.
      if (name.size() < word.size()) {
        plain.push_back(word.substr(name.size() + 1));
      } else if (i + 1 < words.size()) {
        plain.push_back(words[++i]);
      }
    } else {
      const bool is_odd = IsMistaken(word) || (only_paths && is_dashed);
      plain.push_back(is_odd ? absl::StrCat("./", word) : word);
    }
  }
  return plain;
}

}  // namespace warpfold::cli
