// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/admission/allow_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "kernels/error.h"

namespace warpfold::server {
namespace {

AllowList ListOf(const std::string& text) {
  absl::StatusOr<AllowList> list = AllowList::Parse(text);
  EXPECT_TRUE(list.ok()) << list.status();
  return *std::move(list);
}

TEST(AllowListTest, AllowsWhatALineSaysAndNothingElse) {
  const AllowList list = ListOf(
      "# who may call\n"
      "spiffe://example.org/batch\tReduce  Merge # and why\r\n"
      "\n"
      "  dns:client.example.org *\n"
      "uid:1000 GetServerInfo\n"
      "uid:1000 Reduce\n"
      "anonymous ServerReflectionInfo\n"
      "* Check Watch");
  const std::pair<const char*, Method> allowed[] = {
      {"spiffe://example.org/batch", Method::kReduce},
      {"spiffe://example.org/batch", Method::kMerge},
      {"spiffe://example.org/batch", Method::kHealthCheck},
      {"dns:client.example.org", Method::kDeleteArray},
      {"dns:client.example.org", Method::kReduce},
      {"uid:1000", Method::kGetServerInfo},
      {"uid:1000", Method::kReduce},
      {kAnonymous, Method::kReflection},
      {kAnonymous, Method::kHealthWatch},
      {"spiffe://example.org/other", Method::kHealthCheck},
  };
  for (const auto& [identity, method] : allowed) EXPECT_TRUE(list.Allows(identity, method)) << identity;
  const std::pair<const char*, Method> denied[] = {
      {"spiffe://example.org/batch", Method::kReduceArray},
      {"spiffe://example.org/batch", Method::kReflection},
      {"spiffe://example.org/batch/more", Method::kReduce},
      {"spiffe://example.org/BATCH", Method::kReduce},
      {"client.example.org", Method::kReduce},
      {"dns:client.example.org", Method::kUnknown},
      {"uid:100", Method::kReduce},
      {"uid:1000", Method::kMerge},
      {kAnonymous, Method::kReduce},
      {"*", Method::kReduce},
      {"", Method::kReduce},
  };
  for (const auto& [identity, method] : denied) EXPECT_FALSE(list.Allows(identity, method)) << identity;
}

TEST(AllowListTest, MistakesAreNamedByTheirLine) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "allows nothing"},
      {"# none\n\n", "allows nothing"},
      {"uid:1 *\nuid:2\n", "line 2: no methods"},
      {"uid:1 Reduce Check reduce", "line 1: word 4 is not the name of a method"},
      {"uid:1 unknown", "line 1: word 2"},
      {"uid:-1 *", "line 1: the identity"},
      {"uid:01 *", "line 1: the identity"},
      {"uid:4294967296 *", "line 1: the identity"},
      {"uid: *", "line 1: the identity"},
      {"dns: *", "line 1: the identity"},
      {"dns:Upper.example *", "line 1: the identity"},
      {"client.example.org *", "line 1: the identity"},
      {"spiffe:// *", "line 1: the identity"},
      {"Reduce *", "line 1: the identity"},
      {std::string("uid:1 *\0", 8), "line 1: word 2"},
      {std::string("dns:a\0b *", 9), "line 1: the identity"},
  };
  for (const auto& [text, reason] : cases) {
    const absl::StatusOr<AllowList> list = AllowList::Parse(text);
    EXPECT_EQ(list.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(list.status().message(), testing::HasSubstr(reason)) << text;
  }
}

TEST(AllowListTest, ALimitOnItsText) {
  const std::string rule = "uid:1 *\n";
  const std::string most = rule + std::string(AllowList::kMaxBytes - rule.size(), '#');
  EXPECT_TRUE(AllowList::Parse(most.substr(0, most.size() - 1)).ok());
  EXPECT_TRUE(AllowList::Parse(most).ok());
  EXPECT_THAT(AllowList::Parse(most + "#").status().message(), testing::HasSubstr("1048576 bytes"));
}

TEST(AccessTest, WithoutAListEverybodyMay) {
  const Access access;
  EXPECT_TRUE(access.Check(kAnonymous, Method::kDeleteArray).ok());
}

TEST(AccessTest, TheLastListIsInForce) {
  Access access;
  access.SetList(ListOf("uid:1 Reduce"));
  EXPECT_TRUE(access.Check("uid:1", Method::kReduce).ok());
  const absl::Status denied = access.Check("uid:2", Method::kReduce);
  EXPECT_EQ(denied.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(kernels::ErrorReason(denied), "NOT_ALLOWED");
  EXPECT_EQ(denied.message(), "this server does not allow the caller the method Reduce");
  access.SetList(ListOf("uid:2 Reduce"));
  EXPECT_FALSE(access.Check("uid:1", Method::kReduce).ok());
  EXPECT_TRUE(access.Check("uid:2", Method::kReduce).ok());
}

}  // namespace
}  // namespace warpfold::server
