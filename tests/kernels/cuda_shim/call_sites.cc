// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/cuda_shim/call_sites.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"

namespace warpfold::kernels::shim {
namespace {

// Returns the file without comments and texts, whose characters become blanks, so that positions stay.
std::string CodeOf(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  std::string code = text.str();
  static const std::regex kNoCode(R"re(//[^\n]*|"(\\.|[^"\\\n])*")re");
  for (std::sregex_iterator it(code.begin(), code.end(), kNoCode), end; it != end; ++it) {
    const std::string blanks(static_cast<std::size_t>(it->length()), ' ');
    code.replace(static_cast<std::size_t>(it->position()), blanks.size(), blanks);
  }
  return code;
}

// Where the call begins; for a call within the macro, where the macro begins.
std::size_t BeginOfCall(const std::string& code, std::size_t call) {
  const std::size_t statement = code.find_last_of(";{}", call);
  const std::size_t macro = code.rfind("WARPFOLD_RETURN_IF_CUDA_ERROR(", call);
  return macro != std::string::npos && macro > statement ? macro : call;
}

unsigned LineOf(const std::string& code, std::size_t position) {
  return 1 + static_cast<unsigned>(
                 std::count(code.begin(), code.begin() + static_cast<std::ptrdiff_t>(position), '\n'));
}

// CudaMemory<Release> calls the function that it is given.
std::vector<std::string> Releases(const std::string& code) {
  static const std::regex kMemory(R"(CudaMemory<(cuda\w+)>)");
  std::vector<std::string> functions;
  for (std::sregex_iterator it(code.begin(), code.end(), kMemory), end; it != end; ++it) {
    functions.push_back((*it)[1]);
  }
  return functions;
}

void AddCallSites(const std::filesystem::path& file, const std::string& name, std::set<CallSite>& sites) {
  const std::string code = CodeOf(file);
  // The name of an error is not requested from a device.
  static const std::regex kCall(R"(\b(cuda(?!GetErrorName)[A-Z]\w*|Release)\()");
  for (std::sregex_iterator it(code.begin(), code.end(), kCall), end; it != end; ++it) {
    const std::string function = (*it)[1];
    const unsigned line = LineOf(code, BeginOfCall(code, static_cast<std::size_t>(it->position())));
    const std::vector<std::string> called =
        function == "Release" ? Releases(code) : std::vector<std::string>{function};
    for (const std::string& one : called) sites.insert({one, name, line});
  }
}

}  // namespace

std::set<CallSite> CallSitesOf(const std::string& root) {
  // Functions that launch a kernel, or ask the driver, are called through a pointer or a source for the
  // device.
  std::set<CallSite> sites;
  for (const char* const function : {"FindKernels", "LaunchGather", "LaunchReduction", "LaunchSegments",
                                     "LaunchTextbook", "cuMemGetAddressRange"}) {
    sites.insert({function, "", 0});
  }
  const std::filesystem::path folder = std::filesystem::path(root) / "kernels/cuda";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string name = std::filesystem::relative(entry.path(), root).generic_string();
    if (absl::EndsWith(name, ".cc") ||
        (absl::EndsWith(name, ".h") && !absl::EndsWith(name, "vocabulary.h"))) {
      AddCallSites(entry.path(), name, sites);
    }
  }
  return sites;
}

}  // namespace warpfold::kernels::shim
