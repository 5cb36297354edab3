// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/core/limits.h"

namespace warpfold::server {
namespace {

struct Parsed {
  std::optional<int> exit_code;
  Flags flags;
  std::string out;
  std::string error;
};

Parsed Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "warpfold-server");
  std::ostringstream out;
  std::ostringstream error;
  Parsed parsed;
  parsed.exit_code =
      ParseFlags(static_cast<int>(arguments.size()), arguments.data(), &parsed.flags, out, error);
  parsed.out = out.str();
  parsed.error = error.str();
  return parsed;
}

TEST(FlagsTest, Defaults) {
  const Parsed parsed = Parse({});
  EXPECT_EQ(parsed.exit_code, std::nullopt);
  EXPECT_THAT(parsed.flags.listen, testing::ElementsAre("127.0.0.1:50051"));
  EXPECT_EQ(parsed.flags.device, "auto");
  EXPECT_EQ(parsed.flags.log_format, LogFormat::kText);
}

TEST(FlagsTest, ValuesAreTaken) {
  const Parsed parsed =
      Parse({"--listen=0.0.0.0:0,unix:/tmp/a", "--device=cuda:1", "--slots=3", "--slot_bytes=131072",
             "--cpu_threads=2", "--max_concurrent_reductions=5", "--max_stream_bytes=6",
             "--max_stream_seconds=7", "--idle_timeout_seconds=8", "--drain_seconds=0", "--log_format=json"});
  EXPECT_EQ(parsed.exit_code, std::nullopt) << parsed.error;
  EXPECT_THAT(parsed.flags.listen, testing::ElementsAre("0.0.0.0:0", "unix:/tmp/a"));
  EXPECT_EQ(parsed.flags.device, "cuda:1");
  EXPECT_EQ(parsed.flags.slots, 3);
  EXPECT_EQ(parsed.flags.slot_bytes, 131072u);
  EXPECT_EQ(parsed.flags.cpu_threads, 2);
  EXPECT_EQ(parsed.flags.max_concurrent_reductions, 5);
  EXPECT_EQ(parsed.flags.max_stream_bytes, 6u);
  EXPECT_EQ(parsed.flags.max_stream_seconds, 7);
  EXPECT_EQ(parsed.flags.idle_timeout_seconds, 8);
  EXPECT_EQ(parsed.flags.drain_seconds, 0);
  EXPECT_EQ(parsed.flags.log_format, LogFormat::kJson);
}

TEST(FlagsTest, NumbersAreDecimal) {
  const Parsed parsed = Parse({"--slots=010", "--slot_bytes=0131072", "--max_stream_bytes=0100",
                               "--max_stream_seconds=00060", "--cpu_threads=000"});
  EXPECT_EQ(parsed.exit_code, std::nullopt) << parsed.error;
  EXPECT_EQ(parsed.flags.slots, 10);
  EXPECT_EQ(parsed.flags.slot_bytes, 131072u);
  EXPECT_EQ(parsed.flags.max_stream_bytes, 100u);
  EXPECT_EQ(parsed.flags.max_stream_seconds, 60);
  EXPECT_EQ(parsed.flags.cpu_threads, 0);
}

TEST(FlagsTest, AllAreListedAsPeopleWriteThem) {
  using testing::Contains;
  using testing::Pair;
  const auto by_default = Parse({}).flags.all;
  EXPECT_THAT(by_default, Contains(Pair("--listen", "127.0.0.1:50051")));
  EXPECT_THAT(by_default, Contains(Pair("--log_format", "text")));
  EXPECT_THAT(by_default, Contains(Pair("--slots", "two for each shard")));
  EXPECT_THAT(by_default, Contains(Pair("--allow", "none")));
  EXPECT_THAT(by_default, Contains(Pair("--memory_socket_users", "none")));
  EXPECT_THAT(by_default, Contains(Pair("--channelz", "no")));
  const auto given = Parse({"--log_format=json", "--slots=3", "--channelz", "--memory_socket=/tmp/a",
                            "--memory_socket_users=1,2"})
                         .flags.all;
  EXPECT_THAT(given, Contains(Pair("--log_format", "json")));
  EXPECT_THAT(given, Contains(Pair("--slots", "3")));
  EXPECT_THAT(given, Contains(Pair("--channelz", "yes")));
  EXPECT_THAT(given, Contains(Pair("--memory_socket_users", "1,2")));
}

TEST(FlagsTest, WrongValuesAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"--slots=0", "--slots"},
      {"--slots=many", "--slots"},
      {"--slot_bytes=65537", "--slot_bytes: must be a multiple of 65536"},
      {"--slot_bytes=-65536", "--slot_bytes"},
      {"--cpu_threads=-1", "--cpu_threads"},
      {"--max_concurrent_reductions=0", "--max_concurrent_reductions"},
      {"--max_stream_bytes=0", "--max_stream_bytes"},
      {"--max_stream_bytes=2305843009213693953", "--max_stream_bytes"},
      {"--max_stream_seconds=0", "--max_stream_seconds"},
      {"--idle_timeout_seconds=0", "--idle_timeout_seconds"},
      {"--drain_seconds=-1", "--drain_seconds"},
      {"--device=gpu", "--device: must be auto, cpu, cuda:N, cuda:N,cuda:M, cuda:all, simt or simt:SEED"},
      {"--device=simt:", "--device"},
      {"--device=simt:x", "--device"},
      {"--device=cuda:", "--device"},
      {"--device=cuda:0,", "--device"},
      {"--device=cuda:0,cpu", "--device"},
      {"--device=cuda:0,all", "--device"},
      {"--device=cuda:1,cuda:0,cuda:1", "--device: names cuda:1 twice"},
      {"--listen=localhost", "--listen: must be host:port"},
      {"--listen=*:50051", "--listen: all addresses of the machine are 0.0.0.0 or [::], not *"},
      {"--listen=::1:0", "--listen: an IPv6 address stands in brackets, as in [::1]:50051"},
      {"--listen=:::0", "--listen: an IPv6 address stands in brackets"},
      {"--listen=[::1:0", "--listen: no IPv6 address is in the brackets"},
      {"--listen=[127.0.0.1]:0", "--listen: no IPv6 address is in the brackets"},
      {"--listen=127.1:0", "--listen: an IPv4 address has four decimal numbers, as in 127.0.0.1:50051"},
      {"--listen=0:0", "--listen: an IPv4 address has four decimal numbers"},
      {"--listen=127.0.0.1:1,0x7f.0.0.1:0", "--listen: an IPv4 address has four decimal numbers"},
      {"--admin_listen=::1:0", "--admin_listen: an IPv6 address stands in brackets"},
      {"--admin_listen=127.0.0.1", "--admin_listen: must be host:port with a port of 0 to 65535"},
      {"--slots=", "--slots: has no value"},
      {"--listen=", "--listen: has no value"},
      {"--tls_key=/nonexistent/a=", "--tls_key: File does not exist: /nonexistent/a="},
      {"--listen=unix:/tmp/a\nb", "--listen: must have no control characters"},
      {"--listen=localhost:65536", "--listen"},
      {"--listen=127.0.0.1:1,unix:relative", "--listen: a Unix socket is named by its absolute path"},
      {"--listen=:50099", "--listen: the host is missing"},
      {"--admin_listen=:50099", "--admin_listen: the host is missing"},
      {"--listen=127.0.0.1:0,", "--listen: '127.0.0.1:0,' has an empty part"},
      {"--listen=,127.0.0.1:0", "--listen: ',127.0.0.1:0' has an empty part"},
      {"--listen=a:0,,b:0", "--listen: 'a:0,,b:0' has an empty part"},
      {"--listen=unix:/a,b:0,unix:/a", "--listen: names unix:/a twice"},
      {"--listen=a:1,a:1", "--listen: names a:1 twice"},
      {"--log_format=xml", "--log_format"},
      {"--listen=localhost:+1", "--listen"},
      {"--listen=localhost: 1", "--listen"},
      {"--reflection=no", "--reflection: takes no value"},
      {"--reflection=true", "--reflection: takes no value"},
      {"--channelz=false", "--channelz: takes no value"},
      {"--allow_insecure=5", "--allow_insecure: takes no value"},
      {"--memory_socket_users=4294967296", "Value 4294967296 not in range 0 to 4294967295"},
      {"--memory_socket_users=1,,2", "'1,,2' has an empty part"},
      {"--no\npe", "--no pe"},
      {"--tls_cert=/dev/null", "--tls_key"},
      {"--tls_client_ca=/dev/null", "--tls_cert"},
      {"--no_such_flag", "--no_such_flag"},
      {"--resident_owner_bytes=512", "--resident_owner_bytes requires --resident_bytes"},
      {"--max_registered_bytes=1", "--max_registered_bytes requires --memory_socket"},
  };
  for (const auto& [argument, expected] : cases) {
    const Parsed parsed = Parse({argument});
    EXPECT_EQ(parsed.exit_code, 2) << argument;
    EXPECT_THAT(parsed.error, testing::HasSubstr(expected));
  }
}

// Clients send a large array in stripes, even to a server whose flag is meant to set no limit.
TEST(FlagsTest, TheLargestStreamLeavesRoomForStripes) {
  const Parsed parsed = Parse({"--max_stream_bytes=2305843009213693952"});
  ASSERT_EQ(parsed.exit_code, std::nullopt) << parsed.error;
  const Limits limits = {.max_stream_bytes = parsed.flags.max_stream_bytes};
  EXPECT_GE(limits.max_first_byte(), limits.max_stream_bytes);
}

TEST(FlagsTest, AddressesThatClientsCanDial) {
  for (const char* const address :
       {"127.0.0.1:0", "0.0.0.0:50051", "[::]:50051", "[::1]:0", "[fe80::1%eth0]:50051",
        "[::ffff:127.0.0.1]:0", "localhost:50051", "warpfold.example.org:50051", "10.example:50051",
        "unix:/run/warpfold/grpc"}) {
    const Parsed parsed = Parse({absl::StrCat("--listen=", address).c_str()});
    EXPECT_EQ(parsed.exit_code, std::nullopt) << parsed.error;
  }
}

TEST(FlagsTest, AListMayBeTheNextWordAndNameSeveralFreePorts) {
  EXPECT_THAT(Parse({"--listen", "127.0.0.1:0,127.0.0.1:0"}).flags.listen, testing::SizeIs(2));
  EXPECT_THAT(Parse({"--listen", "127.0.0.1:0,"}).error, testing::HasSubstr("has an empty part"));
  EXPECT_THAT(Parse({"--slots=1", "--slots=2"}).error, testing::HasSubstr("--slots: given more than once"));
}

// A stream that takes nothing, as a full disk.
TEST(FlagsTest, HelpThatCannotBeWrittenIsAnError) {
  std::ostream full(nullptr);
  std::ostringstream error;
  Flags flags;
  const char* const arguments[] = {"warpfold-server", "--help"};
  EXPECT_EQ(ParseFlags(2, arguments, &flags, full, error), 2);
  EXPECT_EQ(error.str(), "cannot write to standard output\n");
}

TEST(FlagsTest, FlagsThatContradictEachOther) {
  const Parsed owner = Parse({"--resident_bytes=5000", "--resident_owner_bytes=6000"});
  EXPECT_EQ(owner.exit_code, 2);
  EXPECT_THAT(owner.error, testing::HasSubstr("--resident_owner_bytes: is more than --resident_bytes"));
  EXPECT_EQ(Parse({"--resident_bytes=5000", "--resident_owner_bytes=5000"}).exit_code, std::nullopt);
  const std::vector<const char*> tls = {"--tls_cert=/dev/null", "--tls_key=/dev/null"};
  const Parsed unused = Parse({tls[0], tls[1], "--listen=unix:/tmp/a,unix:/tmp/b"});
  EXPECT_EQ(unused.exit_code, 2);
  EXPECT_THAT(unused.error, testing::HasSubstr("--tls_cert: no address of --listen would use it"));
  EXPECT_EQ(Parse({tls[0], tls[1], "--listen=unix:/tmp/a,localhost:1"}).exit_code, std::nullopt);
}

// An operator who asks for certificates must say whose.
TEST(FlagsTest, ClientsOfAnAuthorityAreDeniedUnlessAListAllowsThem) {
  const std::vector<const char*> tls = {"--tls_cert=/dev/null", "--tls_key=/dev/null",
                                        "--tls_client_ca=/dev/null"};
  const Parsed all_denied = Parse(tls);
  EXPECT_EQ(all_denied.exit_code, 2);
  EXPECT_THAT(all_denied.error, testing::StartsWith("--tls_client_ca: needs --allow"));
  EXPECT_THAT(all_denied.error, testing::HasSubstr("the one line \"* *\" allows everything"));
  EXPECT_EQ(Parse({tls[0], tls[1], tls[2], "--allow=/dev/null"}).exit_code, std::nullopt);
  EXPECT_EQ(Parse({tls[0], tls[1]}).exit_code, std::nullopt);
}

TEST(FlagsTest, ThePagesHaveAnAddressOfTheirOwn) {
  const auto exit_code = [](const char* listen, const char* admin) {
    const Parsed parsed = Parse({listen, admin});
    EXPECT_EQ(parsed.exit_code.has_value(), absl::StartsWith(parsed.error, "--admin_listen: "))
        << parsed.error;
    return parsed.exit_code;
  };
  for (const char* same :
       {"--listen=127.0.0.1:9", "--listen=localhost:9", "--listen=LocalHost:09", "--listen=[::1]:9",
        "--listen=0.0.0.0:9", "--listen=[::]:9", "--listen=unix:/a,127.0.0.1:9"}) {
    EXPECT_EQ(exit_code(same, "--admin_listen=127.0.0.1:9"), 2) << same;
  }
  EXPECT_EQ(exit_code("--listen=10.0.0.1:9", "--admin_listen=0.0.0.0:9"), 2);
  EXPECT_EQ(exit_code("--listen=10.0.0.1:9", "--admin_listen=127.0.0.1:9"), std::nullopt);
  EXPECT_EQ(exit_code("--listen=127.0.0.1:9", "--admin_listen=127.0.0.1:10"), std::nullopt);
  EXPECT_EQ(exit_code("--listen=127.0.0.1:0", "--admin_listen=127.0.0.1:0"), std::nullopt);
  EXPECT_EQ(exit_code("--listen=unix:/tmp/a", "--admin_listen=127.0.0.1:9"), std::nullopt);
}

TEST(FlagsTest, TheLog) {
  EXPECT_EQ(Parse({}).flags.log_level, LogLevel::kInfo);
  EXPECT_EQ(Parse({"--log_level=debug"}).flags.log_level, LogLevel::kDebug);
  EXPECT_EQ(Parse({"--log_level=warning"}).flags.log_level, LogLevel::kWarning);
  EXPECT_EQ(Parse({"--log_level=critical"}).exit_code, 2);
  // An error is reported in the form that was asked for, wherever the flag stands.
  EXPECT_EQ(Parse({"--log_format=json", "--slots=0"}).flags.log_format, LogFormat::kJson);
  EXPECT_EQ(Parse({"--slots=0", "--log_format=json"}).flags.log_format, LogFormat::kJson);
  EXPECT_EQ(Parse({"--no_such_flag", "--log_format=json"}).flags.log_format, LogFormat::kJson);
  EXPECT_EQ(Parse({"--listen=", "--log_format=json"}).flags.log_format, LogFormat::kJson);
  EXPECT_EQ(Parse({"--log_format", "json", "--listen="}).flags.log_format, LogFormat::kJson);
  EXPECT_EQ(Parse({"--listen=", "--log_format=json", "--log_format=text"}).flags.log_format,
            LogFormat::kText);
  EXPECT_EQ(Parse({"--slots=0", "--log_format=xml"}).flags.log_format, LogFormat::kText);
}

TEST(FlagsTest, HelpAndVersion) {
  const Parsed help = Parse({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, testing::HasSubstr("--max_stream_bytes"));
  const Parsed version = Parse({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, testing::HasSubstr(WARPFOLD_VERSION));
}

}  // namespace
}  // namespace warpfold::server
