// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory of another process, which says on which GPU it lies.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string_view>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/error.h"
#include "tests/kernels/cuda_shim/shim.h"

namespace warpfold::kernels::shim {
namespace {

class NamedGpuTest : public testing::Test {
 protected:
  NamedGpuTest() { Shim::Get().Begin({}); }
  ~NamedGpuTest() override { Shim::Get().Begin({}); }

  // A server of one of the two GPUs opens the memory, which is on the second.
  static absl::StatusOr<std::unique_ptr<Memory>> OpenBy(int server_gpu, std::string_view name) {
    ProcessMemory memory = Shim::Get().Export(1, std::array<std::byte, 4096>());
    std::ranges::copy(name, memory.pci_bus_id.begin());
    const auto backend = MakeCudaBackend(std::array{server_gpu}, {.slots = 1, .slot_bytes = 1 << 20});
    if (!backend.ok()) return backend.status();
    const absl::Status owner = (*backend)->CheckOwner(memory);
    absl::StatusOr<std::unique_ptr<Memory>> opened = (*backend)->Open(memory);
    EXPECT_EQ(owner, opened.status());
    if (!opened.ok()) return opened.status();
    EXPECT_EQ((*opened)->size(), 4096u);
    return nullptr;  // it must not outlive the backend
  }
};

TEST_F(NamedGpuTest, TheServersOwnOpensIt) {
  EXPECT_TRUE(OpenBy(1, "0000:01:00.0").ok());
  EXPECT_TRUE(OpenBy(1, "").ok());
}

// Also if the server's GPU could read it.
TEST_F(NamedGpuTest, AnotherOneIsRefused) {
  const absl::Status status = OpenBy(0, "0000:01:00.0").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(ErrorReason(status), "BAD_MEMORY");
  EXPECT_EQ(ErrorDetails(status), (ErrorMetadata{{"field", "pci_bus_id"}}));
}

}  // namespace
}  // namespace warpfold::kernels::shim
