// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// replay FILE...: runs a target over kept inputs, one input a line in base64, if no fuzzer is linked. For
// every build.
#include <cstdint>
#include <fstream>
#include <iostream>
#include <string>

#include "absl/strings/escaping.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  int inputs = 0;
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i]);
    for (std::string line; std::getline(file, line); ++inputs) {
      std::string input;
      if (!absl::Base64Unescape(line, &input)) return 2;
      std::cerr << line << std::endl;  // the last one is the one that fails
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
    }
  }
  std::cout << inputs << " inputs" << std::endl;
  return inputs == 0;
}
