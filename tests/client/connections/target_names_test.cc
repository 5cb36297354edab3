// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/connections/target_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace warpfold {
namespace {

TEST(TargetNamesTest, APortIsANumberOf1To65535) {
  for (const char* const good :
       {"host:1", "host:65535", "host:00080", "unix:/run/a:99999", "unix-abstract:a:0", "vsock:2:99999",
        "ipv4:127.0.0.1:1,127.0.0.1:65535", "[::1]:50051", "[fe80::1%25eth0]:1", "ipv6:[::1]:1", "dns:host:1",
        "dns:///host:1", "dns://1.1.1.1/host:1", "dns://1.1.1.1:53/[::1]:1", "xds:///name", "xds:name"}) {
    EXPECT_TRUE(CheckTargets({good}).ok()) << good << ": " << CheckTargets({good});
  }
  for (const char* const bad : {"host:0",
                                "host:65536",
                                "host:99999999999999999999",
                                "dns:host:0",
                                "ipv4:127.0.0.1:1,127.0.0.1:0",
                                "[::1]:65536",
                                "host:",
                                "host:http",
                                "127.0.0.1:-23261",
                                "127.0.0.1:107811x",
                                "127.0.0.1: 107811",
                                "127.0.0.1:+107811",
                                "127.0.0.1:107811/x",
                                "127.0.0.1:1x",
                                "127.0.0.1:1 ",
                                "host:000080",
                                "dns:///host:107811x",
                                "dns://1.1.1.1:53/host:-1",
                                "[::1]:+1",
                                "[::1]:",
                                "unixhost:99999"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckTargets({bad}))) << bad;
    EXPECT_THAT(CheckTargets({bad}).message(), testing::HasSubstr("a port is a number of 1 to 65535"));
  }
}

TEST(TargetNamesTest, APortHasToBeThere) {
  for (const char* const bad :
       {"host", "127.0.0.1", "::1", "fe80::1:2", "[::1]", "[::1", "[::1]1", "ipv6:::1", "ipv4:127.0.0.1",
        "ipv4:50051", "dns:50051", "dns:host", "dns:///host", "dns://1.1.1.1:53/host", "dns://",
        "dns://1.1.1.1:53", "dns:", "dns:a:b:1"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckTargets({bad}))) << bad;
    EXPECT_THAT(CheckTargets({bad}).message(), testing::HasSubstr("there is no port"));
  }
}

// The system would connect to the path before it.
TEST(TargetNamesTest, APathHasNoZeroBytes) {
  const std::string path("unix:/a\0b", 9);
  EXPECT_TRUE(absl::IsInvalidArgument(CheckTargets({path})));
}

// gRPC would try for a while to reach them.
TEST(TargetNamesTest, AHostOrAPathHasToBeThereInASchemeThatGrpcKnows) {
  for (const char* const good :
       {"ipv4:///127.0.0.1:1", "ipv6:///[::1]:1", "google-c2p:///name", "unix:/run/a,b",
        "ipv6:[::1]:1,[::2]:2", "unix:///run/a", "unix:relative", "unix-abstract:///a"}) {
    EXPECT_TRUE(CheckTargets({good}).ok()) << good << ": " << CheckTargets({good});
  }
  const std::vector<std::pair<const char*, const char*>> cases = {
      {":50051", "the host is missing"},
      {"dns:///:50051", "the host is missing"},
      {"ipv4::50051", "the host is missing"},
      {"ipv4:127.0.0.1:1,:2", "the host is missing"},
      {"[]:50051", "brackets are for IPv6 addresses"},
      {"[localhost]:50051", "brackets are for IPv6 addresses"},
      {"a:1,b:2", "several addresses are named as ipv4:A:1,B:2 or as several targets"},
      {"localhost?:1", "a host has no '/', '?' or '#'"},
      {"127.0.0.1#:50051", "a host has no '/', '?' or '#'"},
      {"localhost/x:1", "a host has no '/', '?' or '#'"},
      {"unix:", "a Unix socket has a path"},
      {"unix://", "a Unix socket has a path"},
      {"unix-abstract:", "a Unix socket has a path"},
      {"unix://run/a", "a Unix socket has no host"},
      {"http://127.0.0.1:1", "gRPC has no such scheme"},
      {"https://host", "gRPC has no such scheme"},
      {"DNS:///host:1", "gRPC has no such scheme"}};
  for (const auto& [bad, fault] : cases) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckTargets({bad}))) << bad;
    EXPECT_THAT(CheckTargets({bad}).message(), testing::HasSubstr(fault)) << bad;
  }
}

TEST(TargetNamesTest, APathOfAUnixSocketMeansWhatItSays) {
  EXPECT_EQ(UriOf("unix:/run/a-b_c.d~e@1:2,f"), "unix:/run/a-b_c.d~e@1:2,f");
  EXPECT_EQ(UriOf("unix:///run/wf"), "unix:///run/wf");
  EXPECT_EQ(UriOf("unix:/q#2"), "unix:/q%232");
  EXPECT_EQ(UriOf("unix:/q?x"), "unix:/q%3fx");
  EXPECT_EQ(UriOf("unix:/%71"), "unix:/%2571");
  EXPECT_EQ(UriOf("unix-abstract:a b\xc3\xa4"), "unix-abstract:a%20b%c3%a4");
  for (const char* const other : {"host:1", "dns:///host:1", "[fe80::1%25eth0]:1", "xds:///a?b"}) {
    EXPECT_EQ(UriOf(other), other);
  }
}

TEST(TargetNamesTest, APathOfAUnixSocketHasAtMost107Bytes) {
  const std::string longest = "/" + std::string(106, 'a');
  for (const char* const scheme : {"unix:", "unix://", "unix-abstract:"}) {
    EXPECT_TRUE(CheckTargets({scheme + longest}).ok()) << scheme;
    EXPECT_TRUE(absl::IsInvalidArgument(CheckTargets({scheme + longest + "a"}))) << scheme;
  }
}

TEST(TargetNamesTest, WhatIsOfThisMachine) {
  for (const char* own : {"localhost:1", "LocalHost", "127.0.0.1:50051", "127.1.2.3", "ipv4:127.0.0.1:1",
                          "dns:///localhost:1", "[::1]:1", "ipv6:[::1]:1", "unix:/a", "unix-abstract:a"}) {
    EXPECT_TRUE(IsOfThisMachine(own)) << own;
  }
  for (const char* other : {"10.0.0.1:1", "localhost.example:1", "127.example:1", "host", "[::2]:1",
                            "dns:///host:1", "0.0.0.0:1", ""}) {
    EXPECT_FALSE(IsOfThisMachine(other)) << other;
  }
}

}  // namespace
}  // namespace warpfold
