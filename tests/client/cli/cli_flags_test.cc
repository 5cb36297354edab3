// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How the command line interprets its words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "client/calls/translate.h"
#include "client/cli/deadline.h"
#include "client/cli/flags.h"
#include "client/cli/validators.h"

namespace warpfold::cli {
namespace {

int ExitCodeOf(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "warpfold");
  const auto line = ParseCommandLine(static_cast<int>(arguments.size()), arguments.data());
  return std::holds_alternative<int>(line) ? std::get<int>(line) : -1;
}

TEST(FlagsTest, UsageErrorsExitWith2) {
  EXPECT_EQ(ExitCodeOf({}), 2);
  EXPECT_EQ(ExitCodeOf({"fold"}), 2);
  EXPECT_EQ(ExitCodeOf({"reduce", "--iota", "5"}), 2);
  EXPECT_EQ(ExitCodeOf({"reduce", "--op", "sum"}), 2);
  EXPECT_EQ(ExitCodeOf({"reduce", "--op", "summ", "--iota", "5"}), 2);
  EXPECT_EQ(ExitCodeOf({"reduce", "--op", "sum", "--iota", "-5"}), 2);
  EXPECT_EQ(ExitCodeOf({"reduce", "--op", "sum", "--iota", "5", "--random", "5"}), 2);
  EXPECT_EQ(ExitCodeOf({"reduce", "--op", "sum", "--iota", "5", "x.npy"}), 2);
  EXPECT_EQ(ExitCodeOf({"reduce", "--op", "sum", "--iota", "5", "--seed", "1"}), 2);
  EXPECT_EQ(ExitCodeOf({"reduce", "--op", "sum", "--iota", "5", "--matrix", "4"}), 2);
  EXPECT_EQ(ExitCodeOf({"reduce", "--op", "sum", "--iota", "5", "--matrix", "0x4"}), 2);
  EXPECT_EQ(ExitCodeOf({"reduce", "--op", "sum", "--iota", "5", "--matrix", "2147483648x2147483648"}), 2);
  EXPECT_EQ(ExitCodeOf({"reduce", "--op", "sum", "--iota", "5", "--dtype", "int128"}), 2);
  EXPECT_EQ(ExitCodeOf({"reduce", "--op", "sum", "--iota", "5", "--streams", "0"}), 2);
  for (const char* no_time : {"0", "-1", "nan", "-nan", "inf", "1e999", "soon"}) {
    EXPECT_EQ(ExitCodeOf({"reduce", "--op", "sum", "--iota", "5", "--timeout", no_time}), 2) << no_time;
    EXPECT_EQ(ExitCodeOf({"put", "x.npy", "--ttl", no_time}), 2) << no_time;
    EXPECT_EQ(ExitCodeOf({"bench", "--pause_ms", no_time}), *no_time == '0' ? -1 : 2) << no_time;
  }
  for (const char* no_length : {"0", "00", "-1", "1.5", "nan"}) {
    EXPECT_EQ(ExitCodeOf({"reduce", "--op", "sum", "--iota", "5", "--segment_length", no_length}), 2);
  }
  EXPECT_EQ(ExitCodeOf({"reduce", "--op", "sum", "--iota", "5", "--target", "a:1,,b:2"}), 2);
  // Numbers are decimal, without blanks, for every option; and a flag has no value.
  for (const char* odd : {"--streams=0x2", "--streams= 2", "--ddof=0x1", "--ddof= 1", "--timeout=0x10",
                          "--timeout=5 ", "--matrix=+2x2", "--matrix= 2x2", "--axis= 1", "--wrap=-1",
                          "--json=5", "--checksum=no", "--json=true", "--json=false"}) {
    EXPECT_EQ(ExitCodeOf({"reduce", "--op", "sum", "--iota", "8", odd}), 2) << odd;
  }
  EXPECT_EQ(ExitCodeOf({"reduce", "--help"}), 0);
}

TEST(FlagsTest, NumbersAreDecimal) {
  const std::vector<const char*> reduce = {"warpfold", "reduce", "--op",      "sum",
                                           "--iota",   "0100",   "--streams", "012"};
  const auto line = ParseCommandLine(static_cast<int>(reduce.size()), reduce.data());
  const auto& flags = std::get<ReduceFlags>(std::get<CommandLine>(line).command);
  EXPECT_EQ(flags.iota, 100);
  EXPECT_EQ(flags.streams, 12);
  EXPECT_EQ(flags.spec.wrap_overflow, std::nullopt) << "an operator that wraps refuses false";
  const std::vector<const char*> bench = {"warpfold",  "bench", "--bytes",       "0070000",
                                          "--callers", "010",   "--chunk_bytes", "04096"};
  const auto load = ParseCommandLine(static_cast<int>(bench.size()), bench.data());
  const auto& load_flags = std::get<BenchFlags>(std::get<CommandLine>(load).command);
  EXPECT_EQ(load_flags.bytes, 70000);
  EXPECT_EQ(load_flags.callers, 10);
  EXPECT_EQ(load_flags.chunk_bytes, 4096);
  EXPECT_EQ(ExitCodeOf({"bench", "--rounds", "00"}), 2);
}

TEST(FlagsTest, TheVersionIsAnAnswer) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(ExitCodeOf({"--version"}), 0);
  EXPECT_NE(testing::internal::GetCapturedStdout(), "");
}

TEST(FlagsTest, ComplaintsNameWhatIsWrong) {
  const std::vector<std::pair<std::vector<const char*>, const char*>> cases = {
      {{"fold"}, "fold: there is no such command\n"},
      {{"bench", "--method", "fold"}, "fold not in {array,health,info,reduce}\n"},
      {{"bench", "--source", "disk"}, "disk not in {chunks,ipc,memory,resident}\n"},
      {{"reduce", "--oper", "sum", "a.npy"}, "--oper: there is no such option\n"},
      {{"reduce", "--oper=sum", "a.npy"}, "--oper: there is no such option\n"},
      {{"reduce", "a.npy", "-x"}, "-x: there is no such option\n"},
      {{"reduce", "--op", "sum", "--op", "max"}, "--op: given more than once; separate several by commas\n"},
      {{"health", "--target", "a:1", "--target", "b:1"}, "more than once; separate several by commas\n"},
      {{"reduce", "--op", "sum", "--random", "5", "--seed=1", "--seed=2"}, "--seed: given more than once\n"},
      {{"health", "--target", ":50051"}, "':50051': the host is missing"},
      {{"health", "--target", "http://a:1"}, "'http://a:1': gRPC has no such scheme"}};
  for (const auto& [words, complaint] : cases) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(ExitCodeOf(words), 2);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr(complaint));
  }
}

TEST(FlagsTest, AKeptArrayTakesNoFlagsOfWhatIsSent) {
  const std::string token(32, 'a');
  std::vector<const char*> arguments = {"reduce", "--op", "sum", "--array", token.c_str(), "--first", "1"};
  EXPECT_EQ(ExitCodeOf(arguments), -1);
  const std::vector<std::vector<const char*>> others = {
      {"--matrix", "2x2"}, {"--dtype", "int32"}, {"--checksum"}, {"--streams", "2"}, {"--member", "x"}};
  for (const std::vector<const char*>& other : others) {
    std::vector<const char*> both = arguments;
    both.insert(both.end(), other.begin(), other.end());
    EXPECT_EQ(ExitCodeOf(both), 2) << other.front();
  }
}

TEST(FlagsTest, AnUnknownTypeIsAnsweredWithAllThatThereAre) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(ExitCodeOf({"reduce", "--op", "sum", "--iota", "5", "--dtype", "int128"}), 2);
  const std::string error = testing::internal::GetCapturedStderr();
  EXPECT_THAT(error, testing::HasSubstr("int32, int64"));
  EXPECT_THAT(error, testing::HasSubstr("bool"));
}

TEST(FlagsTest, InputMayFollowTheOperators) {
  const std::vector<const char*> arguments = {"warpfold", "reduce", "--op", "sum,min", "a.npy"};
  const auto line = ParseCommandLine(static_cast<int>(arguments.size()), arguments.data());
  const ReduceFlags& flags = std::get<ReduceFlags>(std::get<CommandLine>(line).command);
  EXPECT_THAT(flags.spec.operators, testing::ElementsAre("sum", "min"));
  EXPECT_THAT(flags.inputs, testing::ElementsAre("a.npy"));
  EXPECT_EQ(flags.streams, 0);
  EXPECT_NEAR(absl::ToDoubleSeconds(TimeLeft(flags.deadline)), 3700, 60);
  EXPECT_THAT(std::get<CommandLine>(line).server.targets, testing::ElementsAre(kDefaultTarget));
}

TEST(FlagsTest, AllFlagsOfReduce) {
  const std::vector<const char*> arguments = {"warpfold",
                                              "reduce",
                                              "--target",
                                              "unix:/x,host:5",
                                              "--op",
                                              "sum,matrix_product",
                                              "--dtype",
                                              "uint32",
                                              "--matrix",
                                              "3x4",
                                              "--wrap",
                                              "--ignore-nan",
                                              "--modulus",
                                              "97",
                                              "--streams",
                                              "4",
                                              "--json",
                                              "--random",
                                              "10",
                                              "--seed",
                                              "5",
                                              "--timeout",
                                              "1.5",
                                              "--checksum",
                                              "--request_id",
                                              "night-run"};
  const auto line = ParseCommandLine(static_cast<int>(arguments.size()), arguments.data());
  const CommandLine& command_line = std::get<CommandLine>(line);
  EXPECT_THAT(command_line.server.targets, testing::ElementsAre("unix:/x", "host:5"));
  const ReduceFlags& flags = std::get<ReduceFlags>(command_line.command);
  EXPECT_THAT(flags.spec.operators, testing::ElementsAre("sum", "matrix_product"));
  EXPECT_EQ(flags.type, ElementType::kUint32);
  EXPECT_EQ(flags.spec.matrix_shape, (MatrixShape{3, 4}));
  EXPECT_EQ(flags.spec.wrap_overflow, true);
  EXPECT_TRUE(flags.spec.ignore_nan && flags.json);
  EXPECT_EQ(flags.spec.modulus, 97u);
  EXPECT_EQ(flags.streams, 4);
  EXPECT_EQ(flags.random, 10u);
  EXPECT_EQ(flags.seed, 5u);
  EXPECT_NEAR(absl::ToDoubleSeconds(TimeLeft(flags.deadline)), 1.5, 1.5);
  EXPECT_TRUE(flags.checksum);
  EXPECT_EQ(flags.request_id, "night-run");
}

TEST(FlagsTest, AnAlgorithmIsOneOfTheProtocolsAndForOneStream) {
  const auto parse = [](std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), {"warpfold", "reduce", "--op", "sum", "--iota", "9", "--algorithm"});
    return ParseCommandLine(static_cast<int>(arguments.size()), arguments.data());
  };
  const auto line = parse({"last_block"});
  EXPECT_EQ(std::get<ReduceFlags>(std::get<CommandLine>(line).command).spec.algorithm, "last_block");
  EXPECT_EQ(std::get<int>(parse({"quantum"})), kExitUsage);
  EXPECT_EQ(std::get<int>(parse({"last_block", "--streams", "2"})), kExitUsage);
}

TEST(FlagsTest, NumbersThatDoNotFitAreRefused) {
  const std::string token(32, 'a');
  const std::vector<std::vector<const char*>> flags = {
      {"reduce", "--op", "sum", "--random", "5", "--seed"},
      {"reduce", "--op", "sum", "--iota"},
      {"reduce", "--op", "sum", "--random"},
      {"reduce", "--op", "matrix_product", "--iota", "5", "--modulus"},
      {"reduce", "--op", "sum", "--iota", "5", "--segment_length"},
      {"reduce", "--op", "sum", "--array", token.c_str(), "--first"},
      {"reduce", "--op", "sum", "--array", token.c_str(), "--count"},
      {"bench", "--memory_bytes"}};
  for (const std::vector<const char*>& flag : flags) {
    for (const char* number : {"18446744073709551615", "18446744073709551616", "99999999999999999999999"}) {
      std::vector<const char*> arguments = flag;
      arguments.push_back(number);
      const bool fits = number == std::string("18446744073709551615");
      EXPECT_EQ(ExitCodeOf(arguments), fits ? -1 : 2) << flag.back() << " " << number;
    }
  }
  EXPECT_EQ(ExitCodeOf({"reduce", "--op", "sum", "--axis", "9223372036854775808", "x.npy"}), 2);
  EXPECT_EQ(ExitCodeOf({"reduce", "--op", "sum", "--axis", "-1", "x.npy"}), -1);
}

// The server knows how many rows and columns it accepts.
TEST(FlagsTest, AMatrixHasRowsAndColumns) {
  EXPECT_EQ(ParseMatrixShape("1x1"), (MatrixShape{1, 1}));
  EXPECT_EQ(ParseMatrixShape("4096x1"), (MatrixShape{kMaxMatrixSide, 1}));
  EXPECT_EQ(ParseMatrixShape("1x4096"), (MatrixShape{1, kMaxMatrixSide}));
  for (const char* no_shape :
       {"4097x1", "1x4097", "0x4", "4x0", "4", "4x4x4", "4x", "x4", "4x-1", "4 4", ""}) {
    EXPECT_EQ(ParseMatrixShape(no_shape), std::nullopt) << no_shape;
  }
}

TEST(FlagsTest, AnEmptyTextIsNoValue) {
  for (const char* flag : {"--axis", "--ddof", "--modulus", "--streams", "--segment_length", "--timeout",
                           "--matrix", "--dtype", "--algorithm"}) {
    EXPECT_EQ(ExitCodeOf({"reduce", "--op", "sum", "x.npy", flag, ""}), 2) << flag;
    EXPECT_EQ(ExitCodeOf({"reduce", "--op", "sum", "x.npy", (std::string(flag) + "=").c_str()}), 2) << flag;
  }
  for (const char* no_number : {"nan", "1x"}) {
    EXPECT_EQ(ExitCodeOf({"reduce", "--op", "variance", "x.npy", "--ddof", no_number}), 2) << no_number;
  }
}

TEST(FlagsTest, WhatIsMadeHasNoMembers) {
  for (const char* made : {"--iota", "--random"}) {
    EXPECT_EQ(ExitCodeOf({"reduce", "--op", "sum", made, "4", "--member", "x"}), 2) << made;
  }
}

TEST(FlagsTest, APathIsTakenAsItStands) {
  const auto inputs = [](std::vector<const char*> words) {
    words.insert(words.begin(), {"warpfold", "reduce", "--op", "sum"});
    const auto line = ParseCommandLine(static_cast<int>(words.size()), words.data());
    if (std::holds_alternative<int>(line)) return std::vector<std::string>{"refused"};
    return std::get<ReduceFlags>(std::get<CommandLine>(line).command).inputs;
  };
  using testing::ElementsAre;
  EXPECT_THAT(inputs({"[a,b]"}), ElementsAre("./[a,b]"));
  EXPECT_THAT(inputs({"[a]", "[]", "++", "c"}), ElementsAre("./[a]", "./[]", "./++", "c"));
  EXPECT_THAT(inputs({"--", "a.npy"}), ElementsAre("a.npy"));
  EXPECT_THAT(inputs({"a.npy", "--", "-x.npy", "--op", "--"}),
              ElementsAre("a.npy", "./-x.npy", "./--op", "./--"));
  EXPECT_THAT(inputs({"--", "-"}), ElementsAre("-"));
  EXPECT_THAT(inputs({"-x.npy"}), ElementsAre("refused"));
  EXPECT_THAT(inputs({"--"}), ElementsAre("refused"));
  EXPECT_THAT(inputs({"info", "put"}), ElementsAre("info", "put"));
  // A flag that ends in "=" has an empty value, and the word that follows is a path.
  EXPECT_THAT(inputs({"--request_id=", "a.npy"}), ElementsAre("a.npy"));
}

TEST(FlagsTest, AValueIsTakenAsItStands) {
  const std::vector<std::vector<const char*>> lines = {{"--request_id", "[a,b]"}, {"--request_id=[a,b]"}};
  for (std::vector<const char*> words : lines) {
    words.insert(words.begin(), {"warpfold", "reduce", "--op", "sum", "--iota", "5"});
    const auto line = ParseCommandLine(static_cast<int>(words.size()), words.data());
    EXPECT_EQ(std::get<ReduceFlags>(std::get<CommandLine>(line).command).request_id, "[a,b]");
  }
}

}  // namespace
}  // namespace warpfold::cli
